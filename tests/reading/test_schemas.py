"""Reading gives data and a schema, and takes the schema of a fit; nothing else is changed."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import stickbreak as sb
from stickbreak.reading import Given, Schema, read_documents, read_sequences, read_table

X = np.random.default_rng(0).normal(size=(6, 2))
FRAME = pd.DataFrame({"height": [1.0, 2.0, 3.0], "color": ["red", "blue", "red"]})
MIXED = sb.Product([(sb.DiagonalGaussian(), ["height"]), (sb.Categorical(), ["color"])])


def test_a_table_without_a_schema_teaches_one():
    table, schema = read_table(Given(X), sb.Gaussian(), None)
    assert table.rows is X
    assert schema == Schema(2)
    rows, schema = read_table(Given(FRAME), MIXED, None)
    assert schema == Schema(2, ("height", "color"), {"color": ["blue", "red"]})
    np.testing.assert_array_equal(rows.rows[:, 1], [1.0, 0.0, 1.0])


def test_a_table_with_a_schema_is_read_by_it():
    schema = Schema(2, ("height", "color"), {"color": ["green", "red", "blue"]})
    located = MIXED.locate(schema.names, 2)
    table, found = read_table(Given(FRAME), located, schema)
    assert found is schema
    np.testing.assert_array_equal(table.rows[:, 1], [1.0, 2.0, 1.0])
    with pytest.raises(ValueError, match="X has 3 features, but Mixture is expecting 2 features"):
        read_table(Given(np.zeros((2, 3)), owner="Mixture"), sb.Gaussian(), Schema(2))


def test_sequences_remember_how_they_were_given():
    listed, _ = read_sequences(Given([X, X[:4]]), sb.Gaussian(), None)
    stacked, schema = read_sequences(Given(np.r_[X, X[:4]], lengths=[6, 4]), sb.Gaussian(), None)
    assert schema == Schema(2)
    assert listed.shape.is_list
    assert not stacked.shape.is_list
    np.testing.assert_array_equal(listed.offsets, stacked.offsets)


def test_a_vocabulary_grows_only_if_it_may():
    documents, schema = read_documents(Given([["b", "a", "b"], ["a"]]), None)
    assert (documents.n_spans, schema) == (2, Schema(2, ("a", "b")))
    with pytest.warns(sb.DataWarning, match="1 words are not in the vocabulary"):
        _, same = read_documents(Given([["a", "c"]]), schema)
    assert same is schema
    _, grown = read_documents(Given([["a", "c"]]), schema, grows=True)
    assert grown == Schema(3, ("a", "b", "c"))
    assert schema.names == ("a", "b")
    _, numbered = read_documents(Given(sparse.csr_array(np.eye(3))), None)
    assert numbered == Schema(3)
