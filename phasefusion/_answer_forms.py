"""Patterns of answers in generated text; `phasefusion.answers` says what they mean."""

from __future__ import annotations

import re

# A letter on its own, perhaps in brackets or quotes. "T-shirt", "C++", "U.S." and "A's"
# are words.
LETTER = (
    r"(?<![A-Za-z0-9])(?<![A-Za-z0-9][-'’.])"
    r"(?P<open>[(\[{<]?)[\"'“‘]?(?P<letter>[A-Za-z])[\"'”’]?(?P<close>[)\]}>]?)"
    r"(?![A-Za-z0-9])(?![-'’][A-Za-z0-9])(?![+#&])(?!\.[A-Za-z])"
)
MENTION = re.compile(LETTER)
NOUN = r"(?:answer|option|choice|response|solution|letter)"
BE = r"(?:is|was|would\s+be|should\s+be|must\s+be|will\s+be|has\s+to\s+be)"
HEDGE = r"(?:(?:most\s+)?likely|probably|clearly|definitely|therefore|thus|indeed)"
BEFORE = rf"(?:the\s+)?(?:correct\s+)?(?:{NOUN}\s*:?\s*)?"
#: Forms that state an answer; the letter follows.
DECLARED = tuple(
    re.compile(form + LETTER, re.IGNORECASE)
    for form in (
        rf"\b{NOUN}\b(?:\s+(?:to|for)\s+(?:the|this|your)\s+question)?"
        rf"\s*(?:{BE}\s*:?|[:=]|=>|→)\s*(?:{HEDGE}\s*:?\s*)?{BEFORE}",
        r"\b(?:choose|chose|select|selected|pick|picked|go\s+with|going\s+with|"
        rf"opt\s+for|settle\s+on)\s*:?\s*{BEFORE}",
        r"(?:答案|正确选项|正确答案|选项|选择|应选|选)\s*(?:应该|应)?\s*(?:是|为|:)?\s*",
    )
)
#: Forms that state an answer only when the clause ends after the letter.
DECLARED_SHORT = re.compile(
    r"\b(?:(?:so|thus|hence|therefore),?\s*(?:it\s+is|it's|it\s+must\s+be)?|"
    r"it\s+is|it's|it\s+(?:must|should|would|has\s+to)\s+be|must\s+be|answer)\s*:?\s*"
    rf"{BEFORE}{LETTER}",
    re.IGNORECASE,
)
#: Forms in which the letter comes first.
DECLARED_AFTER = re.compile(
    LETTER + r"\s*(?:is|seems|looks|appears\s+to\s+be|would\s+be|must\s+be)\s+"
    r"(?:the\s+|most\s+|clearly\s+|definitely\s+)*"
    r"(?:correct|right|best|accurate|appropriate|likely|true|(?:final\s+)?answer)\b",
    re.IGNORECASE,
)
FINAL = re.compile(
    rf"\bfinal\s+answer\s*(?:{BE})?\s*[:=]?\s*{BEFORE}{LETTER}", re.IGNORECASE
)
BECAUSE = re.compile(rf"{LETTER}[,;]?\s+(?:because|since)\b")
NEGATED = re.compile(
    r"(?:\bnot|n't|\bneither|\bnor|\bexcept|\brather\s+than|\binstead\s+of|"
    rf"\bcannot\s+be|\bexclude)\s+(?:\w+\s+)?{BEFORE}$",
    re.IGNORECASE,
)
WRONG_AFTER = re.compile(
    r"\s*(?:is|are|was|would\s+be|seems|looks)\s*(?:clearly\s+|definitely\s+|also\s+)?"
    r"(?:not|n't|wrong|incorrect|false|impossible|unlikely)|\s*(?:isn't|cannot|can't)",
    re.IGNORECASE,
)
NAMED = re.compile(r"\b(?:option|choice|letter|answer)\s*$", re.IGNORECASE)
#: What makes a letter of a lower-case one: "option b", but no "answer a question".
NAMED_LOWER = re.compile(r"\b(?:option|choice|letter)\s*:?\s*$", re.IGNORECASE)
#: What follows a lower-case letter that is no word; "a and b" is not one answer.
AFTER_LOWER = re.compile(
    r"[,;]?\s+(?:because|since|as|which|is|was|due|given|based)\b", re.IGNORECASE
)
_OTHER = r"[(\[]?[\"'“‘]?(?P<{}>[A-Za-z])[\"'”’]?[)\]]?(?![A-Za-z0-9'’-])"
_OTHERS = _OTHER.format("other") + (
    rf"(?:\s*(?:,|/|&|\bor\b|\band\b|\bnor\b)+\s*{BEFORE}"
    r"[(\[]?[A-Z][)\]]?(?![A-Za-z0-9]))*"
)
#: "not B but C".
NOT_BUT = re.compile(
    rf"(?<!why )\b(?:not|neither|isn't)\s+{BEFORE}{_OTHERS}\s*[,;]?\s+but\s+"
    rf"(?:rather\s+|instead\s+)?{BEFORE}{LETTER}",
    re.IGNORECASE,
)
#: "C, not B": all of a text.
RATHER = re.compile(
    rf"\W*(?:it\s+is\s+|it's\s+)?{BEFORE}{LETTER}\s*[,;]?\s+(?:(?:and\s+|but\s+)?not|"
    rf"rather\s+than|instead\s+of)\s+{BEFORE}{_OTHERS}\W*",
    re.IGNORECASE,
)
FURTHER = re.compile(rf"\s*(?P<by>,\s*(?:and|or)?|/|&|and|or)\s*{BEFORE}{LETTER}")
CLAUSE_END = re.compile(r"\s*(?:[.,;:!?)\n。，；]|$)")
AFTER_LETTER = re.compile(
    r"\s+(?:because|since|as|but|which|is|due|given|based|and|or|for|with)\b"
)

LEADING = re.compile(
    r"\s*(?:(?:option|choice|sentence|caption)\s+|answer\s*:?\s*)?"
    r"(?:\((?P<round>[A-Za-z])\)|\[(?P<square>[A-Za-z])\]|(?P<bare>[A-Za-z])"
    r"(?=[.):,、]|\s|$))(?P<mark>[.):、]*)(?P<rest>.*)",
    re.IGNORECASE,
)
ALONE = re.compile(
    r"\W*(?:(?:option|choice|sentence|caption)\s+)?(?P<letter>[A-Za-z])\W*", re.I
)
#: "Option 2: ...", where options were shown with numbers.
NUMBERED = re.compile(
    r"\W*(?:option|choice|sentence|caption)\s+(?P<number>\d{1,2})\b(?:\s*[.:)].*|\W*)",
    re.IGNORECASE | re.DOTALL,
)
LEAD_IN = re.compile(
    rf"(?:(?:the|my)\s+)?(?:final\s+|correct\s+|best\s+|right\s+)*(?:{NOUN}\s*"
    rf"(?:{BE}\s*:?|[:=])\s*|it\s+is\s+|it's\s+)",
    re.IGNORECASE,
)

THINK = re.compile(
    r"<(?P<close>/?)(?:think|thinking|thought|reasoning|analysis)\b[^<>]*>",
    re.IGNORECASE,
)
TAG = re.compile(
    r"<answer>(?P<tag>.*?)(?:</answer>|$)"
    r"|\\boxed\{\s*(?:\\(?:text|mathrm|mathbf)\{)?(?P<boxed>[^{}]*)\}",
    re.IGNORECASE | re.DOTALL,
)
SPECIAL = re.compile(r"<\|[^|<>]*\|>|</?s>|<(?:eos|pad|bos|end_of_turn)>", re.I)
MARKDOWN = re.compile(r"[*`$]+|(?<!\w)_+|_+(?!\w)|^\s{0,3}(?:#+|>+|[-•])\s+", re.M)

REFUSAL = re.compile(
    r"\bi\s*(?:'m|\s+am)\s+(?:sorry|unable|not\s+able|afraid)|\b(?:i|we)\s+(?:cannot|"
    r"can\s*not|can't|could\s+not|couldn't|do\s+not\s+have|don't\s+have|am\s+not\s+sure|"
    r"do\s+not\s+know|don't\s+know|won't|will\s+not)\b|\bunable\s+to\b|"
    r"\bas\s+an?\s+(?:ai|language\s+model)|\b(?:cannot|can't|can\s+not|could\s+not|not\s+"
    r"possible\s+to)\s+(?:be\s+)?(?:determined?|tell|say|know|answer|see|identif\w+)|"
    r"\b(?:not\s+enough|insufficient)\s+(?:\w+\s+)?(?:information|evidence|context)|"
    r"\bno\s+video\s+(?:was|is|has\s+been)\b|无法|抱歉|不能确定",
    re.IGNORECASE,
)
#: What harnesses write where an answer should be; "None of the above" is a text.
FAILED = re.compile(
    r"\s*(?:(?:failed\s+to\s+obtain\s+answer|error:)\b.*|"
    r"(?:nan|none|null|n/a|exact_match_not_found)\W*)",
    re.IGNORECASE | re.DOTALL,
)
#: A field of an object that was asked for, as in {"answer": "B"}; it may be cut short.
FIELD = re.compile(
    r"[{,]\s*[\"'](?:(?:final|correct|best|selected|chosen|predicted)[_ ]?)?"
    r"(?:answer|option|choice|letter|prediction)(?:[_ ](?:letter|option))?[\"']\s*:\s*"
    r"(?:\"(?P<double>[^\"\\]*)\"|'(?P<single>[^'\\]*)'|"
    r"(?P<bare>[A-Za-z])(?=\s*[,}]))",
    re.IGNORECASE,
)
#: A text that is such an object and nothing else.
OBJECT = re.compile(r"\s*(?:```\w*\s*)?\{.*\}?\s*(?:```)?\s*", re.DOTALL)
#: Options that speak of the others, in front of a reason.
OF_THE_OTHERS = re.compile(
    r"(?:none|all|both)\s+of\s+(?:the\s+)?(?:above|these|those|others?|options|choices)"
    r"(?:\s+(?:options|choices|answers))?"
)
#: What a reason begins with, behind the text of an option in lower case.
REASON = re.compile(r"[,;:.]?\s+(?:because|since)\b")
REASON_OF_THE_OTHERS = re.compile(
    r"(?:\s+(?:options|choices|answers))?"
    r"(?:\s*[.,;:!(–—]|\s+-|-\s|\s+(?:because|since|as|is|are)\b)"
)
BUT = re.compile(r"\W*(?:but|except|though|although|however|only|or|unless)\b")
