"""Which messages are no reason to search: greetings, thanks, yes and no.

A message is trivial if every word in it is one of `WORDS`, or if it has no word at all (a smile, a
full stop). Case, accents and punctuation do not count, nor does a letter that is drawn out
("thanksss"). Scripts without spaces are read phrase by phrase. Anything else is searched: it is
better to search once too often.
"""

import re
import unicodedata

WORDS = frozenset(
    """
    ok okay okey k kk alright right fine sure yes yep yeah yup ya no nope nah not really
    please pls plz thanks thank thx ty you u very so much many a lot again cheers great good
    cool nice perfect awesome excellent wonderful super amazing lovely wow oh ah aha hm hmm mm mhm
    uh um hi hello hey hiya howdy yo there morning afternoon evening night day greetings welcome
    bye goodbye cya see later soon take care got it gotcha understood noted continue go on ahead
    next stop done lol haha hehe sorry np problem worries exactly correct true agreed
    ja nein danke vielen dank schon bitte hallo moin servus tschuss gut genau klar super
    oui non merci beaucoup bonjour bonsoir salut accord d bien au revoir
    si gracias muchas hola buenos dias buenas tardes noches vale claro perfecto adios de nada rien
    sim nao obrigado obrigada ola bom dia boa tarde noite tchau
    grazie mille ciao buongiorno buonasera va bene prego certo arrivederci
    bedankt dank je wel hoi dag goed tak tack hej takk kiitos moi
    да нет спасибо большое привет здравствуйте хорошо ладно ок понятно пока пожалуйста
    """.split()
)
# Phrases of languages that put no spaces between words, and Korean ones.
_UNSPACED = """
    谢谢你 谢谢您 谢谢 多谢 感谢 谢啦 好的 好吧 好啊 好呀 好 嗯嗯 嗯 哦 噢 行 可以 是的 是 对的 对
    不是 不 没有 没事 没问题 不客气 你好 您好 嗨 早上好 早安 下午好 晚上好 晚安 再见 拜拜 收到
    明白了 明白 知道了 继续 哈 了 啊 呀 的 謝謝你 謝謝 多謝 沒問題 沒事 再見 繼續 對
    ありがとうございます ありがとう どうも はい いいえ うん ううん おはようございます おはよう
    こんにちは こんばんは おやすみ さようなら わかりました 了解です 了解 大丈夫です 大丈夫
    お願いします です ね よ
    감사합니다 고마워요 고마워 네 예 아니요 아니 안녕하세요 안녕 알겠습니다 알겠어요 좋아요 좋아
""".split()
_PHRASES = re.compile(
    "(?:{})+".format("|".join(sorted(map(re.escape, _UNSPACED), key=len, reverse=True)))
)
_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_DRAWN_OUT = re.compile(r"(\w)\1{2,}")
LONGEST = 80
"""A longer message is never trivial, characters."""


def is_trivial(text: str) -> bool:
    """Return whether a message asks for nothing that a memory could hold."""
    if len(text) > LONGEST:
        return False
    plain = unicodedata.normalize("NFKC", text).casefold()
    if _only(plain):
        return True
    # Accents go last: they are part of the letters of some of the phrases.
    return _only(_ACCENTS.sub("", unicodedata.normalize("NFKD", plain)))


def _only(text: str) -> bool:
    return all(map(_is_filler, _WORD.findall(text)))


def _is_filler(word: str) -> bool:
    short = {_DRAWN_OUT.sub(r"\1", word), _DRAWN_OUT.sub(r"\1\1", word), word}
    return bool(short & WORDS) or _PHRASES.fullmatch(word) is not None
