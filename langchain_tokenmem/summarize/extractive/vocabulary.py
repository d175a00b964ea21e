"""Cue words that mark a constraint, an error, an open item and the like.

The lists are short on purpose: English, German, French, Spanish, Italian, Portuguese, Dutch,
Russian, Chinese and Japanese, the words that carry the meaning and nothing rare. A language that
is not listed still keeps its literals and its users' statements; only the sorting is coarser.
"""

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _any(words: str, unspaced: str = "") -> re.Pattern[str]:
    """One pattern for words with borders and, for scripts without spaces, for plain strings."""
    spaced = rf"(?<!\w)(?:{words})(?!\w)"
    return re.compile(f"{spaced}|{unspaced}" if unspaced else spaced, re.IGNORECASE)


# "I don't know" is a report, "don't deploy" is an order: the verbs after it tell them apart.
_NOT_AN_ORDER = (
    r"(?! (?:know|think|have|understand|remember|recall|see|care|mind|worry|hesitate|believe|"
    r"feel|get|seem|look|work)\b)"
)

# "I'll never forget that" tells of a person; "never deploy on Fridays" is an order.
REPORT = re.compile(
    r"\b(?:I|it|she|he|they|you|that|this|what|which|who|there)(?:['’](?:s|m|ve|ll|d|re))?"
    r"(?: (?:will|would|have|has|had|can|could|just|really|also|is|was|are|were|do|does|did))?"
    r" (?:never|always|don['’]t|do not|not|no|didn['’]t|doesn['’]t)\b",
    re.IGNORECASE,
)
# Order and prohibition; only a user's own outweigh everything else.
CONSTRAINT = _any(
    r"never|must(?! (?:be an? |have ))|mustn['’]t|"
    rf"(?:don['’]t|do not){_NOT_AN_ORDER}|(?:may|shall|should|can) not be|"
    r"shouldn['’]t|should not|shall not|may not|not allowed|forbidden|prohibited|avoid|"
    r"under no circumstances|no longer than|no more than|no later than|at most|"
    r"always (?!good|nice|great|been)|only (?:use|if|when|on|in|with|after)|"
    r"(?:is|are) not to be|"
    r"no (?!problem|worries|idea|one\b|doubt|need|matter|way\b|issues?\b|further|longer\b|"
    r"such\b|record|objection|other\b|time\b|talk|luck|more\b|real|chance)[a-z]{3,}|"
    r"niemals|nie|nicht|keine?[nmrs]?|darf|dürfen|muss|müssen|immer|ausschließlich|ohne|"
    r"jamais|ne .{1,24} (?:pas|plus|jamais)|n['’].{1,24} (?:pas|plus|jamais)|toujours|sans|doit|"
    r"nunca|jamás|no (?:use|usar|hacer|debe|puede)[a-z]*|siempre|sin|debe|não|sempre|"
    r"non|mai|devono?|senza|nooit|niet|geen|altijd|moet|"
    r"никогда|нельзя|не|только|всегда|должн\w+|без",
    "不要|不得|不能|不可|禁止|绝不|别|必须|务必|只能|切勿|してはいけない|しないで|禁物|必ず|ないでください",
)
# Conditions that are rules as often as remarks.
CONDITION = _any(
    r"make sure|at least|without|has to|have to|required|remember (?:to|that)|"
    r"stell sicher|mindestens|au moins|al menos|ao menos|almeno|minstens|хотя бы",
    "至少|确保|少なくとも",
)
DECISION = _any(
    r"decid\w+|decision|agree[ds]?|chose|chosen|choose|settled on|go(?:ing)? with|went with|"
    r"prefer\w*|reject\w*|rationale|trade-?off|opted|signed off|approved?|"
    r"let['’]s (?:use|go with|keep|stick)|we (?:will|shall) use|conclusion|budget|deadline|"
    r"entschied\w*|entschlossen|beschlossen|vereinbart|stattdessen|einigen|"
    r"décid\w+|convenu|choisi\w*|plutôt que|decid\w+|acordamos|elegimos|"
    r"deciso|scelto|besloten|решил\w*|решено|выбрал\w*",
    "决定|同意|选择|选用|采用|商定|決め|決定|選び|採用",
)
ERROR = _any(
    r"errors?|exceptions?|traceback|fail(?:s|ed|ure|ing)?|crash\w*|bugs?|segfault\w*|broken|"
    r"timed out|denied|refused|cannot|unable to|not found|no such file|fatal|panic|"
    r"\w+(?:Error|Exception)|fehler\w*|fehlgeschlagen|abgestürzt|kaputt|erreurs?|échou\w+|échec|"
    r"fall[oó]\w*|falha\w*|erro|errore|fallit\w*|fout\w*|mislukt|ошибк\w+|сбой|упал\w*",
    "错误|失败|异常|崩溃|报错|エラー|失敗|例外",
)
FIX = _any(
    r"fix(?:ed|es)?|resolved|solved|solution|root cause|caused by|workaround|the cause|"
    r"behoben|gelöst|ursache|lösung|corrig\w+|résolu\w*|solucion\w*|resuelto|resolvid\w+|"
    r"risolt\w+|opgelost|исправ\w+|решен\w+",
    "修复|解决|修正|解決|原因",
)
DEPENDENCY = _any(
    r"pip3? install|npm (?:i|install|add)|yarn add|pnpm add|cargo add|apt(?:-get)? install|"
    r"go get|poetry add|uv add|conda install|dependenc\w+|requirements\.txt|package\.json|"
    r"pyproject\.toml|abhängigkeit\w*|dépendance\w*|dependencia\w*|"
    r"dependência\w*|dipendenz\w+|afhankelijkhe\w+|зависимост\w+",
    "依赖|安装包|依存",
)
# These need a version or an identifier beside them: flights are upgraded, too.
LIBRARY = _any(
    r"upgrad\w+|downgrad\w+|pin(?:ned)?|librar(?:y|ies)|bibliothek\w*|bibliothèque\w*|librería\w*|"
    r"biblioteca\w*|библиотек\w+",
    "升级|库|ライブラリ",
)
CONFIGURATION = _any(
    r"config\w*|settings?|env(?:ironment)? var\w*|feature flag|timeout|set (?:it |the )?\S+ to|"
    r"enabled?|disabled?|toggle\w*|\.env|einstellung\w*|konfigur\w*|umgebungsvariable\w*|"
    r"paramètre\w*|ajuste\w*|configura\w+|impostazion\w+|instelling\w*|настройк\w+|конфиг\w*",
    "配置|设置|环境变量|設定|環境変数",
)
DONE = _any(
    r"done|complete[sd]?|finished|implemented|merged|deployed|shipped|released|added|created|"
    r"updated|removed|deleted|sent|booked|cancell?ed|refunded|resolved|fixed|passes|passing|"
    r"succeed\w*|successfully|closed|migrated|renamed|"
    r"erledigt|fertig|abgeschlossen|umgesetzt|behoben|terminé\w*|fini\w*|fait|achevé\w*|"
    r"hecho|terminad\w+|completad\w+|listo|feito|concluíd\w+|fatto|finito|completat\w+|"
    r"klaar|gedaan|afgerond|готово|сделан\w*|заверш\w+|выполнен\w*",
    "完成|已经|做完|搞定|完了|済み|しました|✅|☑",
)
NOT_DONE = _any(
    r"not|isn['’]t|aren['’]t|hasn['’]t|haven['’]t|wasn['’]t|still|yet to|pending|once|when|if|"
    r"will be|to be|before|until|needs?|should|must|nicht|noch|pas|encore|no|aún|ainda|non|ancora|"
    r"niet|не|ещё|еще",
    "没有|还没|尚未|未完成|まだ|未完了",
)
# Work that is open for sure, whoever speaks of it.
STRONG_OPEN = _any(
    r"to-?do|next step\w*|follow-?up|pending|remaining (?:work|tasks?|steps?|items?|issues?)|"
    r"remains to|still (?:need\w*|open|missing|to do|have to)|open (?:item|question|issue)s?|"
    r"not yet|blocked|waiting for|"
    r"nächste[nr]? schritt\w*|noch offen|reste à|à faire|pendiente\w*|pendente\w*|da fare|осталось",
    "待办|下一步|尚未|还需要|残り|未完了",
)
# Work that may be open; asked only of what has no word of `STRONG_OPEN`.
OPEN = _any(
    r"next up|next,|remaining|remains|later|need\w* to|plan to|offen\w*|nächste\w*|noch|"
    r"prochaine\w*|próxim\w+|falta\w*|prossim\w+|volgende|nog|следующ\w+|нужно",
    "接下来|次は|これから",
)
REQUEST = _any(
    r"please|can you|could you|would you|i need|i want|i['’]d like|i would like|help me|"
    r"bitte|kannst du|können sie|ich (?:möchte|brauche)|s['’]il (?:te|vous) plaît|peux-tu|"
    r"pouvez-vous|je (?:veux|voudrais)|por favor|puedes|quiero|necesito|per favore|puoi|vorrei|"
    r"alstublieft|kun je|ik wil|пожалуйста|можешь|мне нужно|хочу",
    "请|帮我|我想|我需要|ください|お願い|欲しい",
)
GREETING = _any(
    r"hi|hello|hey|good (?:morning|afternoon|evening|night|day)|thanks?(?: you)?(?: so much| a lot|"
    r" very much| again)?|many thanks|bye|goodbye|see you|cheers|welcome|you['’]re welcome|"
    r"how are you(?: doing)?(?: today)?|have a (?:great|nice|good|wonderful|safe)[a-z ]*|"
    r"no problem|sure|certainly|of course|ok(?:ay)?|great|perfect|awesome|nice|cool|sounds good|"
    r"got it|yes|no|yeah|yep|glad to help|happy to help|take care|i hope you are well|"
    r"hallo|guten (?:morgen|tag|abend)|danke(?: schön)?|vielen dank|tschüss|gern(?:e)?|"
    r"bonjour|bonsoir|salut|merci(?: beaucoup)?|au revoir|de rien|hola|buenos días|"
    r"buenas (?:tardes|noches)|(?:muchas )?gracias|adiós|de nada|olá|obrigad[oa]|ciao|grazie|"
    r"prego|dank je|bedankt|привет|здравствуйте|спасибо|пока|до свидания",
    "你好|您好|谢谢|再见|不客气|早上好|好的|こんにちは|おはよう|ありがとう(?:ございます)?|さようなら",
)
# Assistant prose that announces or courts and says nothing about the matter.
BOILERPLATE = re.compile(
    r"(?:sure|certainly|of course|great|thank|i['’]m sorry|i apologi[sz]e|sorry|let me|let['’]s|"
    r"i['’]ll|i will|now,? (?:let|i)|first,? (?:let|i)|could you (?:please )?(?:provide|confirm)|"
    r"would you like|please (?:provide|let me|confirm)|is there anything|feel free|"
    r"you['’]re welcome|if you (?:have|need|would)|here (?:is|are)|i (?:can|have|need to|see|found|"
    r"understand)|to (?:do|complete|answer|proceed|assist)|how can i)\b",
    re.IGNORECASE,
)
ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:[A-Za-z]|\d{1,2}|Mrs?|Ms|Dr|Prof|St|Sr|Jr|vs|etc|No|Nr|approx|Inc|Ltd|Co|"
    r"e\.g|i\.e|z\.B|d\.h|u\.a|bzw|ca|p\.ej|Sra?)$"
)
# A few words that carry no topic; short ones never count as terms anyway.
STOP_WORDS = _words(
    """
    that this with from have will would could should about there their they them then than what
    when where which while been being were your yours into also just like some more most very
    please need needs want does done here only over such make made user after before because eine
    einen einer nicht wird werden haben auch oder aber dass diese dieser pour dans avec cette vous
    nous mais para como esta este pero
    """
)
# Words that open a sentence are capitalised for that reason alone; these are so inside one, too.
NOT_NAMES = _words(
    """
    I The This That These Those There Then It Its We You He She They My Your Our His Her And But
    Or If In On At For From With When Where What Why How Who Which So Also Please Yes No Not Can
    Could Would Should Will Let Here Now After Before To A An Is Are Was Do Does Did Have Has Just
    As By Okay Ok Sure Great Thanks Thank Hi Hello Hey Dear All Any Some One Two Three First
    Second Next Wow Last Yesterday Today Tomorrow Congrats Yeah Yep Nope Oh Ah Hmm Really Well
    Maybe Haha Aw Good Nice Awesome Cool Glad Sounds Definitely Absolutely Sorry Been Being Got
    Every Each User AI Monday Tuesday Wednesday Thursday Friday Saturday Sunday Note Since Once
    Because However Sie Ich Wir Das Die Der Ein Eine Und Bitte Je Nous Vous Le La Les El Los Las
    Un Una Yo ID IDs
    """
)
