"""Sections that rules of words read, in the languages that docs/modes.md names."""

from dataclasses import replace

import pytest

from langchain_tokenmem.core.working_notes.mode_profiles import REASONING
from tests.core.working_notes.notes_reading import assistant, bash, items, read, texts, user


@pytest.mark.parametrize(
    ("section", "said", "expected"),
    [
        ("task", "Thanks a lot! Now add tests for the parser.", "Now add tests for the parser."),
        ("task", "Can you refactor the cache module?", "Can you refactor the cache module?"),
        ("task", "The login page is broken. Please fix it.", "The login page is broken."),
        ("task", "My name is Ada. The login page crashes.", "The login page crashes."),
        ("task", "Füge Tests für den Parser hinzu.", "Füge Tests für den Parser hinzu."),
        ("task", "Ajoute des tests pour le parseur.", "Ajoute des tests pour le parseur."),
        ("task", "¿Puedes corregir el módulo de caché?", "¿Puedes corregir el módulo de caché?"),
        ("objective", "The goal is to design a service.", "design a service"),
        ("objective", "Unser Ziel ist es, die Kosten zu halbieren.", "die Kosten zu halbieren"),
        ("objective", "Notre objectif est de réduire les coûts.", "réduire les coûts"),
        ("objective", "Nuestro objetivo es reducir los costes.", "reducir los costes"),
        ("constraints", "Our budget is $50k.", "Budget: $50k"),
        ("constraints", "The deadline is March 15, 2024.", "Deadline: March 15, 2024"),
        ("constraints", "Unser Budget beträgt 50.000 €.", "Budget: 50.000 €"),
        ("constraints", "Notre budget est de 50 000 €.", "Budget: 50 000 €"),
        ("constraints", "El plazo es de 3 meses.", "Plazo: 3 meses"),
        ("constraints", "Please don't touch the schema.", "don't touch the schema"),
        ("constraints", "Passwords must never be logged.", "Passwords must never be logged"),
        ("constraints", "Wir dürfen nie auf main pushen.", "Wir dürfen nie auf main pushen"),
        ("constraints", "You mustn\u2019t use Redis.", "You mustn\u2019t use Redis"),
        ("constraints", "No uses bibliotecas externas.", "No uses bibliotecas externas"),
        ("constraints", "L'API doit répondre en 200 ms.", "L'API doit répondre en 200 ms"),
        ("constraints", "The deadline is the 14th of May.", "Deadline: the 14th of May"),
        ("constraints", "Remember: no calls on weekends.", "no calls on weekends"),
        ("constraints", "We only support Python 3.12.", "We only support Python 3.12"),
        ("constraints", "Hör auf, Emojis zu benutzen.", "Hör auf, Emojis zu benutzen"),
        ("decisions", "We settled on two-week sprints.", "two-week sprints"),
        ("decisions", "I've decided against microservices.", "Against microservices"),
        ("decisions", "Let's use pytest for the tests.", "Use pytest for the tests"),
        ("decisions", "Wir haben beschlossen, die API zu versionieren.", "die API zu versionieren"),
        ("assumptions", "Assuming the API is stable, we can ship.", "the API is stable"),
        ("assumptions", "Let's assume that all users have accounts.", "all users have accounts"),
        ("assumptions", "Angenommen, dass der Server 8 GB hat, reicht das.", "der Server 8 GB hat"),
        ("assumptions", "Supposons que le serveur ait 8 Go.", "le serveur ait 8 Go"),
        ("assumptions", "Supongamos que el servidor tiene 8 GB.", "el servidor tiene 8 GB"),
        ("facts", "I'm a nurse from Lyon, can you help me?", "I'm a nurse from Lyon"),
        ("facts", "I have two dogs named Rex and Max.", "I have two dogs named Rex and Max"),
        ("facts", "I prefer tabs over spaces.", "I prefer tabs over spaces"),
        ("facts", "Move it, and remember that I never eat fish.", "I never eat fish"),
        ("facts", "Please keep in mind my son is allergic.", "my son is allergic"),
        ("facts", "We moved to Graz, so use that address.", "We moved to Graz"),
        ("facts", "Our team uses pnpm, not npm.", "Our team uses pnpm, not npm"),
        ("facts", "My sister Laura will join us.", "My sister Laura will join us"),
        ("facts", "I'd rather take the train than fly.", "I'd rather take the train than fly"),
        ("facts", "Ich arbeite nachts, deshalb schlafe ich lange.", "Ich arbeite nachts"),
        ("facts", "Notre équipe utilise pnpm.", "Notre équipe utilise pnpm"),
        ("facts", "No como carne.", "No como carne"),
        ("facts", "Ich wohne in Hamburg.", "Ich wohne in Hamburg"),
        ("facts", "Je m'appelle Luc.", "Je m'appelle Luc"),
        ("facts", "Soy alérgica a las nueces.", "Soy alérgica a las nueces"),
        ("facts", "Hi, I'm Marta.", "I'm Marta"),
        ("facts", "hey, i live in leeds. is this a good place to talk?", "i live in leeds"),
        ("facts", "Ich bin Krankenschwester, falls das hilft.", "Ich bin Krankenschwester"),
        ("facts", "Words confuse me because I'm dyslexic.", "I'm dyslexic"),
        ("facts", "I'm allergic to nuts, it runs in the family.", "I'm allergic to nuts"),
        ("facts", "I have insomnia.", "I have insomnia"),
        ("facts", "Wir haben übrigens einen Hund, der bellt.", "Wir haben übrigens einen Hund"),
        ("facts", "Nous habitons à Lyon.", "Nous habitons à Lyon"),
        ("facts", "Our wedding is in June.", "Our wedding is in June"),
        ("facts", "My flatmate Tom is vegan.", "My flatmate Tom is vegan"),
        ("facts", "Meine Tochter hat Asthma.", "Meine Tochter hat Asthma"),
        ("facts", "Notre fille Léa a 17 ans.", "Notre fille Léa a 17 ans"),
        ("facts", "My landlord doesn't allow pets.", "My landlord doesn't allow pets"),
        ("facts", "The landlord lowered the rent to 850.", "The landlord lowered the rent to 850"),
        ("facts", "The interview got moved to May 9.", "The interview got moved to May 9"),
        ("facts", "Die Miete wird auf 850 Euro gesenkt.", "Die Miete wird auf 850 Euro gesenkt"),
        ("facts", "L'examen a été reporté au 12 juin.", "L'examen a été reporté au 12 juin"),
        ("facts", "El casero bajó el alquiler a 850.", "El casero bajó el alquiler a 850"),
        ("constraints", "Never call twice, it costs a lot.", "Never call twice"),
        ("constraints", "The deadline has been moved to 24 March.", "Deadline: 24 March"),
        ("constraints", "Das Budget wurde auf 7.500 € erhöht.", "Budget: 7.500 €"),
        ("constraints", "Ich will höchstens 500 Euro.", "Ich will höchstens 500 Euro"),
        ("phase", "Let's move on to the testing phase.", "testing"),
        ("constraints", "Never say goodbye to the customer.", "Never say goodbye to the customer"),
        ("constraints", "Don't tell users about the sale.", "Don't tell users about the sale"),
        ("constraints", "For my film project, the budget is 5000 euros.", "Budget: 5000 euros"),
        ("constraints", "I'm 6'2\" tall and my budget is 500 euros.", "Budget: 500 euros"),
        ("constraints", "Our budget is 500 euros a month, no more.", "Budget: 500 euros a month"),
        ("constraints", "Das Budget ist 500 Euro pro Monat.", "Budget: 500 Euro pro Monat"),
        ("constraints", "Budget: 500 €/month", "Budget: 500 €/month"),
        ("constraints", "The budget is 500 euros if we go by train.", "Budget: 500 euros"),
        ("constraints", "The max length is 20 words or fewer.", "Max length: 20 words"),
        ("constraints", "The deadline is the end of June.", "Deadline: end of June"),
    ],
)  # fmt: skip
def test_what_a_user_says_is_read_into_its_section(section: str, said: str, expected: str):
    assert texts(read([user(said)]), section) == [expected]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        *[("task", said) for said in ("ok", "Please continue.", "Thanks a lot, that looks good!")],
        *[("task", said) for said in ("Why is it so slow?", "ja, mach weiter", "vale, sigue")],
        ("objective", "That was a great goal in the match."),
        ("constraints", "That must be hard for the whole family."),
        ("constraints", "I never liked the old parser."),
        ("constraints", "Must the API answer within 200 ms?"),
        ("constraints", "Ich muss jetzt leider los, bis morgen."),
        ("decisions", "Should we decide to use Go?"),
        ("decisions", "If we decided to use Go, we would need new servers."),
        ("decisions", "We haven't decided on a database yet."),
        ("decisions", "Last year we decided to visit Rome together."),
        ("decisions", "I'll go with option 2."),
        ("assumptions", "Don't assume that the file exists."),
        ("assumptions", "If we assume the triangle is right, the sides follow."),
        ("assumptions", "She will assume the role of a manager."),
        ("facts", "I'm a bit tired."),
        ("facts", "I have a question about the parser."),
        ("facts", "Do I live in Berlin?"),
        ("facts", "From now on I am a pirate."),
        ("facts", "I'd rather not say."),
        ("facts", "I've been studying for a week now."),
        ("facts", "Call me when you are done."),
        ("constraints", "No meetings today, thanks!"),
        ("constraints", "Stop it."),
        ("constraints", "No emails were sent by the job."),
        ("constraints", "We don't use the variable after line 30."),
        ("facts", "Our team is blocked."),
        ("facts", "J'ai une question."),
        ("facts", "Suppose my rent is 900 and my salary is 3000."),
        ("facts", "In the story my sister has asthma."),
        ("facts", "I am a thief in my story."),
        ("facts", "He said, I am a teacher from Bath."),
        ("facts", "> I live in Hamburg."),
        ("facts", 'Translate: "My name is Juan and I live in Madrid."'),
        ("facts", "Par exemple, j'habite à Oslo."),
        ("facts", 'He wrote: "I am a star. I live in Cannes. I love fish."'),
        ("decisions", 'Rewrite this: "We decided to use Go because it is fast."'),
        ("constraints", "Suppose that the deadline is 5 May."),
        ("constraints", "What would you do if your budget is $500?"),
        ("decisions", "Let's drop by the office."),
        ("constraints", 'They wrote: "Our budget is 50 euros."'),
        ("facts", "My dad is watching football."),
        ("facts", "The exam module moved from 2 to 3 files."),
        ("facts", "I changed the appointment table to 3 columns."),
        ("facts", "The president raised the salary of teachers to 3000 euros."),
        ("facts", "Please move my appointment to 9 April."),
        ("facts", "Did the landlord lower the rent to 850?"),
        ("facts", "My boss has a point."),
        ("facts", "We had two cats in the test data."),
        ("facts", "I'm Sorry."),
    ],
)  # fmt: skip
def test_assent_questions_moods_and_guesses_are_not_read(section: str, said: str):
    assert texts(read([user(said)]), section) == []


@pytest.mark.parametrize(
    ("said", "text", "rationale", "rejected"),
    [
        (
            "We decided to use events instead of direct calls or polling due to better decoupling.",
            *("Use events", "better decoupling", ["direct calls", "polling"]),
        ),
        ("Instead of Java, we decided to use Go.", "use Go", None, ["Java"]),
        (
            "Wir haben uns für PostgreSQL statt MySQL entschieden, weil es JSON kann.",
            *("PostgreSQL", "es JSON kann", ["MySQL"]),
        ),
        (
            "Nous avons choisi PostgreSQL plutôt que MySQL parce que le JSON est mieux géré.",
            *("PostgreSQL", "le JSON est mieux géré", ["MySQL"]),
        ),
        (
            "Hemos decidido usar PostgreSQL en lugar de MySQL porque maneja mejor JSON.",
            *("usar PostgreSQL", "maneja mejor JSON", ["MySQL"]),
        ),
        (
            "Decision: use event sourcing\nRationale: better audit\nRejected: CRUD; polling",
            *("Use event sourcing", "better audit", ["CRUD", "polling"]),
        ),
    ],
)
def test_a_decision_has_its_reason_and_what_was_rejected(
    said: str, text: str, rationale: str | None, rejected: list[str]
):
    for speaker in (user, assistant):
        [decision] = items(read([speaker(said)]), "decisions")
        assert (decision["text"], decision["number"]) == (text, 1)
        assert (decision.get("rationale"), decision["rejected"]) == (rationale, rejected)
    went_over = read([user("We decided to go over the numbers again.")])
    assert texts(went_over, "decisions") == ["Go over the numbers again"]
    limits = replace(REASONING, limits={"alternatives": 1})
    assert items(read([user(said)], limits=limits), "decisions")[0]["rejected"] == rejected[:1]


def test_a_decision_keeps_its_number_for_ever():
    messages = [user(f"We decided to use tool{n} for step {n}.") for n in range(1, 22)]
    again = assistant("We decided to use tool9 for step 9.")
    state = read([*messages, again])
    assert [one["number"] for one in items(state, "decisions")] == list(range(2, 22))


def test_a_decision_replaces_the_one_that_it_rejects_and_no_other():
    said = ["We decided to use SQLite.", "We chose Go over Java.", "We settled on weekly releases."]
    state = read([*map(user, said), user("We decided to use Postgres instead of SQLite.")])
    assert [(one["number"], one["text"].lower()) for one in items(state, "decisions")] == [
        (2, "go"),
        (3, "weekly releases"),
        (4, "use postgres"),
    ]


def test_a_second_fact_about_a_person_replaces_none_and_a_new_name_replaces_the_old():
    said = ["My son is allergic to nuts.", "My son starts school in May.", "My wife is vegan."]
    state = read([user(text) for text in said])
    assert texts(state, "facts") == [text.rstrip(".") for text in said]
    state = read([user("My name is Ada."), user("My name is Eve.")])
    assert texts(state, "facts") == ["My name is Eve"]


def test_constraints_facts_and_decisions_of_tool_results_are_not_read():
    for said in (
        "The API must answer within 200 ms.",
        "I live in Rome.",
        "We decided to use Java.",
    ):
        assert read(bash("cat notes.md", said))["sections"].keys() <= {"files", "commands"}
    for section, said in (("constraints", "Never push to main."), ("facts", "I live in Rome.")):
        assert texts(read([assistant(said)]), section) == []


def test_a_constraint_or_a_fact_of_the_same_kind_replaces_the_one_before():
    said = ["The budget is $50k. Timeline: 3 months. My name is Ada.", "The budget is now $60k."]
    state = read([*map(user, said), user("Sorry, my name is Eve.")])
    assert texts(state, "constraints") == ["Budget: $60k", "Timeline: 3 months"]
    assert texts(state, "facts") == ["my name is Eve"]


def test_a_change_replaces_the_value_before_it_and_no_other():
    said = [
        "My rent is 900 euros.",
        "My exam is on May 3.",
        "The team meeting was moved to Monday.",
    ]
    later = ["The landlord lowered the rent to 850.", "The board meeting was moved to May 9."]
    assert texts(read([*map(user, [*said, *later])]), "facts") == [
        "The landlord lowered the rent to 850",
        "My exam is on May 3",
        "The team meeting was moved to Monday",
        "The board meeting was moved to May 9",
    ]


@pytest.mark.parametrize(
    ("said", "correction", "expected"),
    [
        ("My budget is 800 euros.", "Sorry, I meant 900.", "Budget: 800 euros (corrected: 900)"),
        (
            "The deadline is 1 May.",
            "No, the end of May.",
            "Deadline: 1 May (corrected: end of May)",
        ),
        ("Notre budget est de 80 €.", "Non, plutôt 90 €.", "Budget: 80 € (corrected: 90 €)"),
        ("We must insure 40 homes.", "It's 45, not 40.", "We must insure 40 homes (corrected: 45)"),
        ("We must insure 40 homes.", "Not 40, but 45.", "We must insure 40 homes (corrected: 45)"),
        ("My budget is 800 euros.", "Not 850, but 900 euros.", "Budget: 800 euros"),
        ("My budget is 800 euros.", "I have 3 questions.", "Budget: 800 euros"),
        ("My budget is 800 euros.", "The rent is 900, not 850.", "Budget: 800 euros"),
        ("My budget is 800 euros.", "Actually, the trip has 9 days.", "Budget: 800 euros"),
        ("My budget is 800 euros.", "Sorry, option 2.", "Budget: 800 euros"),
        ("My budget is 800 euros.", "Actually, 900 euros?", "Budget: 800 euros"),
        ("My budget is 30 minutes.", "Wait, 5 more minutes.", "Budget: 30 minutes"),
        ("My budget is 800 euros.", "Make it shorter.", "Budget: 800 euros"),
    ],
)
def test_a_value_alone_corrects_the_statement_before_it(said: str, correction: str, expected: str):
    talk = [user(said), assistant("Noted."), user(correction)]
    assert texts(read(talk), "constraints") == [expected]
    again = read([*talk, user("Oops, 950.")])
    later = texts(again, "constraints")[0]
    assert later.count("corrected") <= 1
    assert later.startswith(expected.partition(" (")[0])


def test_a_value_corrects_the_statement_of_its_unit_or_of_the_last_turn():
    said = ["My budget is 800 euros.", "Which hotels are there?", "I meant 3 nights.", "I meant 9."]
    assert texts(read([*map(user, said)]), "constraints") == ["Budget: 800 euros"]
    state = read([*map(user, [*said, "Sorry, make that 900 euros."])])
    assert texts(state, "constraints") == ["Budget: 800 euros (corrected: 900 euros)"]
    two = ["My budget is 800 euros.", "I have 2 kids.", "Make that 900."]
    assert texts(read([user(" ".join(two[:2])), user(two[2])]), "facts") == ["I have 2 kids"]
    later = read([*map(user, [said[0], *["Go on."] * 6, "Make it 900 euros."])])
    assert texts(later, "constraints") == ["Budget: 800 euros"]


def test_what_is_dropped_is_no_decision_any_more():
    said = ["Let's use Redis as a cache.", "We chose Porto and Faro.", "Let's use Go instead of C."]
    dropped = ["Let's drop Redis.", "Let's scrap Faro, please."]
    state = read([*map(user, [*said, *dropped])])
    decisions = ["Porto and Faro", "use Go", "drop Redis", "scrap Faro"]
    assert texts(state, "decisions") == decisions


def test_the_objective_is_the_first_task_until_a_goal_is_named():
    messages = [user("Design a scalable architecture."), user("Compare three databases.")]
    state = read(messages)
    assert texts(state, "objective") == ["Design a scalable architecture"]
    state = read([*messages, user("Our goal is to halve the cost of storage.")], state)
    assert texts(state, "objective") == ["halve the cost of storage"]


def test_a_later_step_and_a_rule_are_no_objective():
    rule = "Please only use sources after 2020."
    assert texts(read([user(rule)]), "objective") == []
    small_talk = [user(said) for said in ("Hello there.", "How are you?", "Nice weather today.")]
    state = read([*small_talk, user("Use the table customers for the cohorts.")])
    assert texts(state, "task") == ["Use the table customers for the cohorts."]
    assert texts(state, "objective") == []


def test_sub_goals_phase_and_assumptions_are_read_under_their_names_only():
    plan = "Phase: evaluation\n\nSub-goals:\n- Compare\n- Plan it\n\nAssumptions:\n- It is stable"
    state = read([assistant(plan)])
    assert texts(state, "subgoals") == ["Compare", "Plan it"]
    assert (texts(state, "phase"), texts(state, "assumptions")) == (
        ["evaluation"],
        ["It is stable"],
    )
    same = read([assistant("Some goals:\n- Compare"), user("The phase of the moon.")])
    assert texts(same, "subgoals") == texts(same, "phase") == []


def test_a_plan_is_looked_for_in_a_long_run_of_signs_in_the_end():
    assert texts(read([user("The goal:" + "\n-*-\n" * 10_000)]), "subgoals") == []


def test_names_said_twice_are_entities_and_phrases_said_three_times_are_topics():
    state = read(
        [
            user("We met Emma Kim in Lyon about error handling and the API."),
            assistant("How is Emma Kim? And Lyon? Robert Brown says: error handling, API."),
            user("Well, we like Lyon and saw Paris. It is due in March. API error handling"),
        ]
    )
    assert [(one["text"], one.get("count")) for one in items(state, "entities")] == [
        ("Emma Kim", 2),
        ("Lyon", 3),
    ]
    assert texts(state, "topics") == ["API", "error handling"]


def test_german_nouns_are_no_names_in_a_short_message_either():
    said = ("Ich habe ein Problem mit der Maschine.", "Das Problem mit der Maschine ist noch da.")
    assert texts(read([*map(user, said)]), "entities") == []
    said = ("We saw Kranz and Emma van der Berg.", "We like Kranz and Emma van der Berg.")
    assert "Kranz" in texts(read([*map(user, said)]), "entities")


def test_a_quoted_line_of_a_command_changes_no_file():
    state = read(bash("git commit -m 'Fix\nrm src/old.py'\ncat src/new.py"))
    verbs = {one["text"]: one.get("verb") for one in items(state, "files")}
    assert verbs == {"src/old.py": "ran", "src/new.py": "read"}
