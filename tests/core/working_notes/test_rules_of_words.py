"""Sections that rules of words read, in the languages that docs/modes.md names."""

import re
from dataclasses import replace

import pytest

from langchain_tokenmem.core.working_notes.mode_profiles import REASONING
from tests.core.working_notes.notes_reading import (
    assistant,
    bash,
    heard,
    items,
    read,
    texts,
    user,
)

# Sentences by section, with ` | ` between two of them; what is noted of one is in brackets.
READ = {
    "task": """
Thanks a lot! [Now add tests for the parser.] | [Can you refactor the cache module?]
[The login page is broken.] Please fix it. | My name is Ada. [The login page crashes.]
[Füge Tests für den Parser hinzu.] | [Ajoute des tests pour le parseur.]
[¿Puedes corregir el módulo de caché?]
""",
    "objective": """
The goal is to [design a service]. | Unser Ziel ist es, [die Kosten zu halbieren].
Notre objectif est de [réduire les coûts]. | Nuestro objetivo es [reducir los costes].
""",
    "constraints": """
Please [don't touch the schema]. | [Passwords must never be logged].
[Wir dürfen nie auf main pushen]. | [You mustn\u2019t use Redis]. | [No uses bibliotecas externas].
[L'API doit répondre en 200 ms]. | Remember: [no calls on weekends].
[We only support Python 3.12]. | [Hör auf, Emojis zu benutzen].
[Never call twice], it costs a lot. | [Ich will höchstens 500 Euro].
[Never say goodbye to the customer]. | [Don't tell users about the sale].
[Budget: 500 €/month]
""",
    "decisions": """
We settled on [two-week sprints]. | Wir haben beschlossen, [die API zu versionieren].
""",
    "assumptions": """
Assuming [the API is stable], we can ship. | Let's assume that [all users have accounts].
Angenommen, dass [der Server 8 GB hat], reicht das. | Supposons que [le serveur ait 8 Go].
Supongamos que [el servidor tiene 8 GB].
""",
    "facts": """
[I'm a nurse from Lyon], can you help me? | [I have two dogs named Rex and Max].
[I prefer tabs over spaces]. | Move it, and remember that [I never eat fish].
Please keep in mind [my son is allergic]. | [We moved to Graz], so use that address.
[Our team uses pnpm, not npm]. | [My sister Laura will join us].
[I'd rather take the train than fly]. | [Ich arbeite nachts], deshalb schlafe ich lange.
[Notre équipe utilise pnpm]. | [No como carne]. | [Ich wohne in Hamburg]. | [Je m'appelle Luc].
[Soy alérgica a las nueces]. | Hi, [I'm Marta].
hey, [i live in leeds]. is this a good place to talk?
[Ich bin Krankenschwester], falls das hilft. | Words confuse me because [I'm dyslexic].
[I'm allergic to nuts], it runs in the family. | [I have insomnia].
[Wir haben übrigens einen Hund], der bellt. | [Nous habitons à Lyon].
[Our wedding is in June]. | [My flatmate Tom is vegan]. | [Meine Tochter hat Asthma].
[Notre fille Léa a 17 ans]. | [My landlord doesn't allow pets].
[The landlord lowered the rent to 850]. | [The interview got moved to May 9].
[Die Miete wird auf 850 Euro gesenkt]. | [L'examen a été reporté au 12 juin].
[El casero bajó el alquiler a 850].
""",
    "phase": """
Let's move on to the [testing] phase.
""",
}
READ_INTO_ANOTHER_FORM = [
    ("constraints", "Our budget is $50k.", "Budget: $50k"),
    ("constraints", "The deadline is March 15, 2024.", "Deadline: March 15, 2024"),
    ("constraints", "Unser Budget beträgt 50.000 €.", "Budget: 50.000 €"),
    ("constraints", "Notre budget est de 50 000 €.", "Budget: 50 000 €"),
    ("constraints", "El plazo es de 3 meses.", "Plazo: 3 meses"),
    ("constraints", "The deadline is the 14th of May.", "Deadline: the 14th of May"),
    ("decisions", "I've decided against microservices.", "Against microservices"),
    ("decisions", "Let's use pytest for the tests.", "Use pytest for the tests"),
    ("constraints", "The deadline has been moved to 24 March.", "Deadline: 24 March"),
    ("constraints", "Das Budget wurde auf 7.500 € erhöht.", "Budget: 7.500 €"),
    ("constraints", "For my film project, the budget is 5000 euros.", "Budget: 5000 euros"),
    ("constraints", "I'm 6'2\" tall and my budget is 500 euros.", "Budget: 500 euros"),
    ("constraints", "Our budget is 500 euros a month, no more.", "Budget: 500 euros a month"),
    ("constraints", "Das Budget ist 500 Euro pro Monat.", "Budget: 500 Euro pro Monat"),
    ("constraints", "The budget is 500 euros if we go by train.", "Budget: 500 euros"),
    ("constraints", "The max length is 20 words or fewer.", "Max length: 20 words"),
    ("constraints", "The deadline is the end of June.", "Deadline: end of June"),
]
NOT_READ = {
    "task": """
ok | Please continue. | Thanks a lot, that looks good! | Why is it so slow? | ja, mach weiter
vale, sigue
""",
    "objective": """
That was a great goal in the match.
""",
    "constraints": """
That must be hard for the whole family. | I never liked the old parser.
Must the API answer within 200 ms? | Ich muss jetzt leider los, bis morgen.
No meetings today, thanks! | Stop it. | No emails were sent by the job.
We don't use the variable after line 30. | Suppose that the deadline is 5 May.
What would you do if your budget is $500? | They wrote: "Our budget is 50 euros."
""",
    "decisions": """
Should we decide to use Go? | If we decided to use Go, we would need new servers.
We haven't decided on a database yet. | Last year we decided to visit Rome together.
I'll go with option 2. | Rewrite this: "We decided to use Go because it is fast."
Let's drop by the office.
""",
    "assumptions": """
Don't assume that the file exists. | If we assume the triangle is right, the sides follow.
She will assume the role of a manager.
""",
    "facts": """
I'm a bit tired. | I have a question about the parser. | Do I live in Berlin?
From now on I am a pirate. | I'd rather not say. | I've been studying for a week now.
Call me when you are done. | Our team is blocked. | J'ai une question.
Suppose my rent is 900 and my salary is 3000. | In the story my sister has asthma.
I am a thief in my story. | He said, I am a teacher from Bath. | > I live in Hamburg.
Translate: "My name is Juan and I live in Madrid." | Par exemple, j'habite à Oslo.
He wrote: "I am a star. I live in Cannes. I love fish." | My dad is watching football.
The exam module moved from 2 to 3 files. | I changed the appointment table to 3 columns.
The president raised the salary of teachers to 3000 euros.
Please move my appointment to 9 April. | Did the landlord lower the rent to 850?
My boss has a point. | We had two cats in the test data. | I'm Sorry.
""",
}


def sentences(table):
    return [
        (section, said)
        for section, text in table.items()
        for said in re.split(r" \| |\n", text.strip())
    ]


@pytest.mark.parametrize(("section", "said"), sentences(READ))
def test_what_a_user_says_is_read_into_its_section(section, said):
    before, noted, after = re.split(r"[\[\]]", said)
    assert texts(read([user(before + noted + after)]), section) == [noted]


@pytest.mark.parametrize(("section", "said", "noted"), READ_INTO_ANOTHER_FORM)
def test_values_and_decisions_are_noted_in_one_form(section, said, noted):
    assert texts(read([user(said)]), section) == [noted]


@pytest.mark.parametrize(("section", "said"), sentences(NOT_READ))
def test_assent_questions_moods_and_guesses_are_not_read(section, said):
    assert texts(read([user(said)]), section) == []


@pytest.mark.parametrize(
    ("said", "text", "rationale", "rejected"),
    [
        ("We decided to use events instead of direct calls or polling due to better decoupling.",
         "Use events", "better decoupling", ["direct calls", "polling"]),
        ("Instead of Java, we decided to use Go.", "use Go", None, ["Java"]),
        ("Wir haben uns für PostgreSQL statt MySQL entschieden, weil es JSON kann.",
         "PostgreSQL", "es JSON kann", ["MySQL"]),
        ("Nous avons choisi PostgreSQL plutôt que MySQL parce que le JSON est mieux géré.",
         "PostgreSQL", "le JSON est mieux géré", ["MySQL"]),
        ("Hemos decidido usar PostgreSQL en lugar de MySQL porque maneja mejor JSON.",
         "usar PostgreSQL", "maneja mejor JSON", ["MySQL"]),
        ("Decision: use event sourcing\nRationale: better audit\nRejected: CRUD; polling",
         "Use event sourcing", "better audit", ["CRUD", "polling"]),
    ],
)  # fmt: skip
def test_a_decision_has_its_reason_and_what_was_rejected(said, text, rationale, rejected):
    for speaker in (user, assistant):
        [decision] = items(read([speaker(said)]), "decisions")
        assert (decision["text"], decision["number"]) == (text, 1)
        assert (decision.get("rationale"), decision["rejected"]) == (rationale, rejected)
    limits = replace(REASONING, limits={"alternatives": 1})
    assert items(read([user(said)], limits=limits), "decisions")[0]["rejected"] == rejected[:1]


def numbered(*said):
    return [(one["number"], one["text"].lower()) for one in items(heard(*said), "decisions")]


def test_a_decision_keeps_its_number_for_ever():
    tools = [f"We decided to use tool{n} for step {n}." for n in range(1, 22)]
    again = numbered(*tools, "We decided to use tool9 for step 9.")
    assert [number for number, _ in again] == list(range(2, 22))


def test_a_decision_replaces_the_one_that_it_rejects_or_drops_and_no_other():
    said = ["We decided to use SQLite.", "We chose Go over Java.", "We settled on weekly releases."]
    replaced = numbered(*said, "We decided to use Postgres instead of SQLite.")
    assert replaced == [(2, "go"), (3, "weekly releases"), (4, "use postgres")]
    said = ["Let's use Redis as a cache.", "We chose Porto and Faro.", "Let's use Go instead of C."]
    dropped = numbered(*said, "Let's drop Redis.", "Let's scrap Faro, please.")
    assert [text for _, text in dropped] == ["porto and faro", "use go", "drop redis", "scrap faro"]
    assert numbered("We decided to go over the numbers again.") == [
        (1, "go over the numbers again")
    ]


@pytest.mark.parametrize(
    ("section", "said", "noted"),
    [
        ("facts", ["My son is allergic to nuts.", "My son starts school in May."],
         ["My son is allergic to nuts", "My son starts school in May"]),
        ("facts", ["My name is Ada.", "Sorry, my name is Eve."], ["my name is Eve"]),
        ("facts", ["My rent is 900 euros.", "The landlord lowered the rent to 850."],
         ["The landlord lowered the rent to 850"]),
        ("facts", ["The team meeting was moved to Monday.", "The board meeting was moved to 9."],
         ["The team meeting was moved to Monday", "The board meeting was moved to 9"]),
        ("facts", ["My exam is on May 3.", "The board meeting was moved to May 9."],
         ["My exam is on May 3", "The board meeting was moved to May 9"]),
        ("constraints", ["The budget is $50k. Timeline: 3 months.", "The budget is now $60k."],
         ["Budget: $60k", "Timeline: 3 months"]),
    ],
)  # fmt: skip
def test_a_value_of_the_same_kind_replaces_the_one_before_and_no_other(section, said, noted):
    assert texts(heard(*said), section) == noted


SMALL_TALK = ["Hello there.", "How are you?", "Nice weather today."]


@pytest.mark.parametrize(
    ("section", "said", "noted"),
    [
        ("objective", ["Design a scalable service.", "Compare three databases."],
         ["Design a scalable service"]),
        ("objective", ["Design a scalable service.", "Our goal is to halve the cost."],
         ["halve the cost"]),
        ("objective", ["Please only use sources after 2020."], []),
        ("objective", [*SMALL_TALK, "Use the table x for cohorts."], []),
        ("task", [*SMALL_TALK, "Use the table x for cohorts."], ["Use the table x for cohorts."]),
    ],
)  # fmt: skip
def test_the_objective_is_the_first_task_or_the_goal_and_never_a_rule_or_a_later_step(
    section, said, noted
):
    assert texts(heard(*said), section) == noted


def test_words_of_tool_results_and_rules_and_facts_of_answers_are_not_read():
    rule, fact = "The API must answer within 200 ms.", "I live in Rome."
    for said in (rule, fact, "We decided to use Java."):
        assert read(bash("cat notes.md", said))["sections"].keys() <= {"files", "commands"}
    noted = read([assistant(rule), assistant(fact)])
    assert texts(noted, "constraints") == texts(noted, "facts") == []


BUDGET, HOMES = "My budget is 800 euros.", "We must insure 40 homes."


@pytest.mark.parametrize(
    ("said", "correction", "corrected"),
    [
        (BUDGET, "Sorry, I meant 900.", "900"),
        ("The deadline is 1 May.", "No, the end of May.", "end of May"),
        ("Notre budget est de 80 €.", "Non, plutôt 90 €.", "90 €"),
        (HOMES, "It's 45, not 40.", "45"),
        (HOMES, "Not 40, but 45.", "45"),
        (BUDGET, "Not 850, but 900 euros.", None),
        (BUDGET, "I have 3 questions.", None),
        (BUDGET, "The rent is 900, not 850.", None),
        (BUDGET, "Actually, the trip has 9 days.", None),
        (BUDGET, "Sorry, option 2.", None),
        (BUDGET, "Actually, 900 euros?", None),
        ("My budget is 30 minutes.", "Wait, 5 more minutes.", None),
        (BUDGET, "Make it shorter.", None),
    ],
)
def test_a_value_alone_corrects_the_statement_before_it(said, correction, corrected):
    [before] = texts(heard(said), "constraints")
    talk = [user(said), assistant("Noted."), user(correction)]
    expected = f"{before} (corrected: {corrected})" if corrected else before
    assert texts(read(talk), "constraints") == [expected]
    [later] = texts(read([*talk, user("Oops, 950.")]), "constraints")
    assert later.startswith(before)
    assert later.count("corrected") <= 1


def test_a_value_corrects_the_statement_of_its_unit_or_of_the_last_turn():
    said = [BUDGET, "Which hotels are there?", "I meant 3 nights.", "I meant 9."]
    assert texts(heard(*said), "constraints") == ["Budget: 800 euros"]
    state = heard(*said, "Sorry, make that 900 euros.")
    assert texts(state, "constraints") == ["Budget: 800 euros (corrected: 900 euros)"]
    assert texts(heard(f"{BUDGET} I have 2 kids.", "Make that 900."), "facts") == ["I have 2 kids"]
    later = heard(BUDGET, *["Go on."] * 6, "Make it 900 euros.")
    assert texts(later, "constraints") == ["Budget: 800 euros"]


def test_sub_goals_phase_and_assumptions_are_read_under_their_names_only():
    plan = "Phase: evaluation\n\nSub-goals:\n- Compare\n- Plan it\n\nAssumptions:\n- It is stable"
    state = read([assistant(plan)])
    assert texts(state, "subgoals") == ["Compare", "Plan it"]
    assert texts(state, "phase") == ["evaluation"]
    assert texts(state, "assumptions") == ["It is stable"]
    same = read([assistant("Some goals:\n- Compare"), user("The phase of the moon.")])
    assert texts(same, "subgoals") == texts(same, "phase") == []
    assert texts(heard("The goal:" + "\n-*-\n" * 10_000), "subgoals") == [], "it ends"


def test_names_said_twice_are_entities_and_phrases_said_three_times_are_topics():
    said = [
        user("We met Emma Kim in Lyon about error handling and the API."),
        assistant("How is Emma Kim? And Lyon? Robert Brown says: error handling, API."),
        user("Well, we like Lyon and saw Paris. It is due in March. API error handling"),
        assistant("Robert Brown again."),
    ]
    state = read(said)
    counts = [(one["text"], one.get("count")) for one in items(state, "entities")]
    assert counts == [("Emma Kim", 2), ("Lyon", 3)]
    assert texts(state, "topics") == ["API", "error handling"]


def test_german_nouns_are_no_names_in_a_short_message_either():
    said = ("Ich habe ein Problem mit der Maschine.", "Das Problem mit der Maschine ist noch da.")
    assert texts(heard(*said), "entities") == []
    said = ("We saw Kranz and Emma van der Berg.", "We like Kranz and Emma van der Berg.")
    assert "Kranz" in texts(heard(*said), "entities")
