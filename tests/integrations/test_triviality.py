"""Which messages of a user are no reason to search."""

import pytest

from langchain_agentmem.integrations.triviality import is_trivial


@pytest.mark.parametrize(
    "text",
    """ok|OK.|Okay!|thanks|Thank you so much!!|thankssss|thx|hi|Hello there|Good morning|yes|No.
    |got it|great, thanks|bye|see you later|go on|continue|please continue|👍|...|?!|🙂 ok|lol
    |谢谢|谢谢！|好的，谢谢|嗯嗯|你好|没问题|早上好|ありがとうございます|はい|감사합니다|네|ＯＫ
    |merci beaucoup|Danke schön|¡gracias!|obrigado|olá|спасибо|grazie mille""".replace(
        "\n    ", ""
    ).split("|"),
)
def test_trivial_messages(text: str) -> None:
    assert is_trivial(text)


@pytest.mark.parametrize(
    "text",
    [
        "Which tea?",
        "ok, but which tea?",
        "thanks, and my dog?",
        "42",
        "why",
        "What is my name",
        "Anna",
        "hi Rex",
        "我的狗叫什么",
        "谢谢，那部署方案呢",
        "好的，口令是什么",
        "お茶",
        "개 이름이 뭐야",
        "OC-41252",
        "roof",
        "thanks " * 20,
    ],
)
def test_messages_that_ask_for_something(text: str) -> None:
    assert not is_trivial(text)
