"""Texts that are difficult for tokenizers: languages, code, emoji, marks, white space, broken UTF-8."""
import random

PROSE = """The quick brown fox doesn't jump; it'll say "I'VE had 1234567 lazy dogs!"
Größere Straßen überqueren Füße; cœur, naïve façade, où est l'été ? Año, pingüino, ¿qué?
Быстрая лисица прыгает через 42 ленивых собак. Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.
敏捷的棕色狐狸跳过了懒狗。いろはにほへと ちりぬるを、カタカナ。다람쥐 헌 쳇바퀴에 타고파
الثعلب البني السريع يقفز فوق ٤٢ كلبا. שועל חום מהיר. तेज़ भूरी लोमड़ी १२३ कूदती है।
นักเรียนไทยกินข้าว ၁၂၃ မြန်မာ ខ្មែរ ಕನ್ನಡ தமிழ் తెలుగు ગુજરાતી ქართული հայերեն አማርኛ
Tiếng Việt có nhiều dấu thanh: ế ệ ở ữ. İstanbul'da ığüşöç. Zażółć gęślą jaźń.
https://example.com/a?b=c&d=%20 user@host.org 2024-01-31T23:59:59Z 3.14159e-10 $1,234.56 №5
<|left|> mixed <|right|>  tokens<|word|>s and <|word|> alone é-token é-token <|lef <s></s><|end|>"""

CODE = """def f(x, *, y=None):\n    if x is None:\n        return [i**2 for i in range(10) if i % 2 == 0]\n
int main(int argc, char** argv) {\n\tstd::vector<int> v{1, 2, 3};\n\treturn v.size() != 0U ? 0 : -1;\r\n}\r\n
SELECT a.id, COUNT(*) FROM `t` AS a WHERE a.x >= 10 GROUP BY 1;\n#!/bin/sh\necho "$HOME" | sed 's/a/b/g'\n"""

ODD = ["👩‍👩‍👧‍👦", "🇩🇪🇯🇵", "👍🏽", "\u200d", "\ufeff", "\u00a0", "\u2003", "\u3000", "\u2028", "\x85", "\x00", "\x1c",
       "e\u0301", "a\u0323\u0301", "\u1100\u1161\u11a8", "Ⅷ", "½", "²", "…½", "a½b", "๓", "𝔘𝔫𝔦", "ŉ", "ſ", "'ſ", "'S",
       "'LL", "ﬁ", "ß", "ẞ", "▁", "▁▁", "Ġ", "Ċ", "<0x41>", "<0xE2>", "\t\t", "   ", "\n\n", "\r\n", " \n ", "\n   x",
       "\U00010d40", "\U00011de0", "\U000105d2\u0307", "\u0958", "\u212b", "Ⓐ<|word|>", "_<|word|>", "<|word|>\u0301",
       " <|left|>", "<|right|> \n", "  <|right|>  <|left|>  ", "\u1c89", "\ua7cb", "…", "—", "''", "don't", "WE'RE",
       "1" * 40, "a" * 90, " " * 37, "=" * 50, "ab" * 60, "\U0001f600" * 12, "中" * 45]


def words(random_, count):
    pool = PROSE.split(" ")
    return " ".join(random_.choice(pool) for _ in range(count))


def document(random_):
    """Returns one text as bytes. A fifth of the texts are broken UTF-8."""
    parts = []
    for _ in range(random_.randint(1, 12)):
        kind = random_.random()
        if kind < 0.35:
            parts.append(words(random_, random_.randint(1, 60)))
        elif kind < 0.5:
            at = random_.randrange(len(CODE))
            parts.append(CODE[at:at + random_.randint(1, 300)])
        elif kind < 0.6:
            parts.append("".join(chr(random_.choice((random_.randrange(32, 127), random_.randrange(160, 0xD800),
                                                     random_.randrange(0xE000, 0x20000))))
                                 for _ in range(random_.randint(1, 30))))
        elif kind < 0.8:
            parts.append("".join(random_.choice(ODD) for _ in range(random_.randint(1, 8))))
        else:
            parts.append(random_.choice((" ", "\n", "", "  ", "\t", "\n\n")))
    text = "".join(parts).encode("utf-8")
    if random_.random() < 0.2 and text:
        broken = bytearray(text)
        for _ in range(random_.randint(1, 5)):
            broken[random_.randrange(len(broken))] = random_.randrange(256)
        text = bytes(broken[random_.randrange(4):])
    return text


def documents(size, seed):
    """Returns texts with `size` bytes in all, the same for the same seed. The first is empty."""
    random_, texts, total = random.Random(seed), [b""], 0
    while total < size:
        texts.append(document(random_))
        total += len(texts[-1])
    return texts
