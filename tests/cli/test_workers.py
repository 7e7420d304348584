"""`--workers`: commands on a cluster, with TLS and without."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.running import command  # noqa: F401
from places import cluster

import stickbreak as sb
from stickbreak.data import batches

RNG = np.random.default_rng(0)
X = RNG.choice([-5.0, 5.0], (600, 1)) + RNG.standard_normal((600, 2))
FIT = ("fit", "mixture", "rows*.npy", "--n-components", 2, "--seed", 0, "--max-iter", 3, "--json")

pytestmark = pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "SHARD_LANE_ROWS", 100)
    for i in range(3):
        np.save(tmp_path / f"rows{i}.npy", X[200 * i : 200 * i + 200])


def test_a_command_runs_on_a_cluster_by_its_address_or_file(command, shards, tmp_path):  # noqa: F811
    here = json.loads(command(*FIT).out)
    with cluster(2, protocol="tcp", host="127.0.0.1", is_current=False) as client:
        client.write_scheduler_file(str(tmp_path / "scheduler.json"))
        for where in (client.scheduler.address, "scheduler.json"):
            done = command(*FIT, "--workers", where, "--out", "two.stickbreak")
            assert done.code == 0, done.err
            there = json.loads(done.out)
            assert there["lower_bound"] == here["lower_bound"]
            assert there["n_rows"] == 600
        saved = tmp_path / "rows1.npy"
        scored = command("score", "two.stickbreak", saved, "--workers", client.scheduler.address)
        assert scored.out == command("score", "two.stickbreak", saved).out


def test_patterns_name_documents_and_tables(command, shards, tmp_path):  # noqa: F811
    for i in range(2):
        (tmp_path / f"docs{i}.ldac").write_text("2 0:3 1:1\n1 2:4\n" * 10)
    fit = ("--n-components", 2, "--seed", 0, "--max-iter", 2, "--json")
    done = command("fit", "lda", "docs*.ldac", *fit)
    assert done.code == 0, done.err
    assert json.loads(done.out)["n_documents"] == 40
    for model, data, told in (
        ("mixture", "docs*.ldac", "names documents"),
        ("lda", "rows*.npy", "names tables"),
    ):
        done = command("fit", model, data, *fit)
        assert done.code == 2
        assert told in done.err


@pytest.mark.slow
def test_caches_of_all_hosts_are_filled_at_once(command):  # noqa: F811
    with cluster(2, protocol="tcp", host="127.0.0.1", is_current=False) as client:
        at = client.scheduler.address
        found = command("warmup", "--family", "gaussian", "--workers", at, "--json")
        assert found.code == 0, found.err
        assert len(json.loads(found.out)["hosts"]) == 1  # two workers, one host


def test_what_names_no_cluster_is_one_line(command, shards, tmp_path):  # noqa: F811
    pytest.importorskip("distributed", reason="needs the extra dask")
    (tmp_path / "broken.json").write_text("{}")
    for given, told in (
        (["--workers", "nowhere.json"], "there is no such file"),
        (["--workers", "broken.json"], "is no scheduler file: it has no address"),
        (["--workers", "bogus://127.0.0.1:1"], "no answer from a dask scheduler"),
        (["--tls-key", "me.key"], "--tls-key is for --workers"),
        (["--workers", "tls://127.0.0.1:1", "--tls-cert", "me.pem"], "--tls-ca-file is missing"),
        (
            ["--workers", "tls://127.0.0.1:1", "--tls-ca-file", "a", "--tls-cert", "b",
             "--tls-key", "c"],
            "--tls-ca-file: a is no file",
        ),
    ):  # fmt: skip
        done = command(*FIT, *given)
        assert done.code == 2
        assert told in done.err
        assert done.err.count("\n") == 1
        assert not done.out
    for name in ("--array", "--no-header"):
        done = command(*FIT, name, *(["x"] if name == "--array" else []))
        assert done.code == 2
        assert "does not apply to shards" in done.err


def test_the_extra_is_named_where_it_is_missing(command, shards, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = command(*FIT, "--workers", "tcp://127.0.0.1:1")
    assert done.code == 2
    assert "--workers needs distributed: pip install 'stickbreak[dask]'" in done.err


# ---------------------------------------------------------------------------------- TLS


def write_certificates(folder: Path) -> dict[str, str]:
    """An authority of our own, and a certificate that it signed."""
    x509 = pytest.importorskip("cryptography.x509", reason="needs cryptography")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("ca", "me")
    ]
    loopback = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    paths = {}
    for i, name in enumerate(("ca", "me")):
        made = (
            x509.CertificateBuilder()
            .subject_name(names[i])
            .issuer_name(names[0])
            .public_key(keys[i].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=i == 0, path_length=None), critical=True)
            .add_extension(loopback, critical=False)
            .sign(keys[0], hashes.SHA256())
        )
        paths[name] = str(folder / f"{name}.pem")
        Path(paths[name]).write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths["key"] = str(folder / "me.key")
    Path(paths["key"]).write_bytes(
        keys[1].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


@contextlib.contextmanager
def secured(folder: Path) -> Iterator[tuple[Any, list[str]]]:
    """A client of a cluster that asks for certificates, and the options that name ours."""
    paths = write_certificates(folder)
    security = pytest.importorskip("distributed", reason="needs the extra dask").Security(
        tls_ca_file=paths["ca"],
        tls_scheduler_cert=paths["me"],
        tls_scheduler_key=paths["key"],
        tls_worker_cert=paths["me"],
        tls_worker_key=paths["key"],
        tls_client_cert=paths["me"],
        tls_client_key=paths["key"],
        require_encryption=True,
    )
    options = ["--tls-ca-file", paths["ca"], "--tls-cert", paths["me"], "--tls-key", paths["key"]]
    how = {"host": "tls://127.0.0.1", "security": security, "is_current": False}
    with cluster(1, **how) as client:
        yield client, options


def test_certificates_are_shown_and_asked_for(command, shards, tmp_path):  # noqa: F811
    here = json.loads(command(*FIT).out)
    with secured(tmp_path) as (client, options):
        at = client.scheduler.address
        assert at.startswith("tls://127.0.0.1:")
        done = command(*FIT, "--workers", at, *options)
        assert done.code == 0, done.err
        assert json.loads(done.out)["lower_bound"] == here["lower_bound"]
        with sb.workers(client):  # a client with certificates is used as it is
            fit = sb.Mixture(2, random_state=0, max_iter=3)
            found = fit.fit(sb.open_shards(str(tmp_path / "rows*.npy")))
        assert found.lower_bound_ == pytest.approx(here["lower_bound"])
        plain = command(*FIT, "--workers", at.replace("tls://", "tcp://"), *options)
        assert plain.code == 2
        assert "is not encrypted" in plain.err
