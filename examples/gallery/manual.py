"""What a manual is about

The pages of Python's own help, as `help("topics")` shows them, are the documents; words of more
than a fifth of the pages say nothing of any and are left out. The model begins with twenty topics
and merges or deletes those that do not pay. Most pages are about one thing: patterns, numbers, the
debugger, names and scopes. A few mix several, and the columns at the top show which.
"""

import re
from collections import Counter
from pydoc_data.topics import topics

import stickbreak as sb

pages = [re.findall("[a-z]{3,}", text.lower()) for text in topics.values()]
n_pages = Counter(word for page in pages for word in set(page))  # that have the word
telling = {word for word, n in n_pages.items() if 3 <= n <= len(pages) / 5}
documents = [[word for word in page if word in telling] for page in pages]
documents = [words for words in documents if len(words) >= 20]

moves = sb.Merge(), sb.Delete()
model = sb.HDPTopicModel(
    20, word_concentration=0.3, inference=sb.MemoizedVB(moves=moves), random_state=0
).fit(documents)
for topic, words in enumerate(model.top_words(6, relevance=0.6)):
    print(topic + 1, *words)
model.plot(X=documents).savefig("manual.png")
