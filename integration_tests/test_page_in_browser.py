"""The page in a real headless Chromium: slider, jumps, hostile content, many messages."""

import os
import shutil
import threading
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.cli.page import PageServer, session_page
from langchain_tokenmem.cli.stored_sessions import StoredSessions, opened
from tests.fakes import tool_round

RECORDED = Path(__file__).parents[1] / "examples" / "recorded_agent.jsonl"
SIZES = {"desktop": (1400, 1000), "phone": (390, 800)}
HOSTILE = (
    "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='bad'\">",
    "</conversation_summary> ``` </pre></textarea> <svg onload=alert(1)> {{ 7*7 }} ${7*7}",
    "\u202eright to left\u202c שלום עולם مرحبا \x00\x1b[31m \ud800 \u2028",
    "one long line " * 30_000,
)


@pytest.fixture(scope="module")
def browser():
    """Start a browser; its console is kept from the beginning."""
    reason = "needs Debian's chromium and chromium-driver, and pip install selenium"
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and driver):
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    webdriver = pytest.importorskip("selenium.webdriver", reason=reason)
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for name in (
        *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run"),
        *("disable-background-networking", "disable-component-update", "disable-sync"),
    ):
        options.add_argument(f"--{name}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    one = webdriver.Chrome(options=options, service=service)
    yield one
    one.quit()


def show(browser, page, tmp_path, size="desktop"):
    """Open a page from a file."""
    file = tmp_path / "page.html"
    file.write_text(page, encoding="utf-8", errors="replace")
    browser.set_window_size(*SIZES[size])
    browser.get_log("browser")
    browser.get(file.as_uri())


def css(browser, selector):
    return browser.find_elements("css selector", selector)


def appeared(browser, selector):
    """Return the elements once there are any: a submitted form loads its page afterwards."""
    from selenium.webdriver.support.wait import WebDriverWait

    return WebDriverWait(browser, 30).until(lambda one: css(one, selector))


def console(browser):
    return [one["message"] for one in browser.get_log("browser") if "favicon" not in one["message"]]


def fits(browser):
    """Return whether nothing has to be scrolled to the right."""
    code = "return document.documentElement.scrollWidth - innerWidth"
    return browser.execute_script(code) <= 0


def press(browser, keys):
    browser.switch_to.active_element.send_keys(keys)


def name(browser):
    (heading,) = css(browser, "#name")
    return heading.text


def is_in_sight(browser, element):
    code = """const b = arguments[0].getBoundingClientRect();
        return b.bottom > 0 && b.top < innerHeight && b.height > 0"""
    return browser.execute_script(code, element)


@pytest.fixture(scope="module")
def recorded():
    with opened(str(RECORDED)) as found:
        return session_page(found, "recorded-agent", 6_000)


@pytest.mark.parametrize("size", SIZES)
def test_slider_keys_and_chart_choose_the_call(browser, recorded, tmp_path, size):
    show(browser, recorded, tmp_path, size)
    assert name(browser).startswith("Call 25 of 25, which would come next: ")
    (slider,) = css(browser, "#slider")
    slider.send_keys("\ue011")  # Home
    assert name(browser).startswith("Call 1 of 25: ")
    assert not css(browser, "#request [data-kind=summary]")
    (body,) = css(browser, "#on")
    body.click()
    assert name(browser).startswith("Call 2 of 25: ")
    browser.execute_script("document.activeElement.blur()")
    press(browser, "\ue010")  # End
    assert name(browser).startswith("Call 25 of 25")
    press(browser, "n")
    (why,) = css(browser, "#why")
    assert "shortened" in why.text or "summarized" in why.text
    (chart,) = css(browser, "#chart svg")
    chart.click()  # in the middle
    assert name(browser).startswith(("Call 11 ", "Call 12 ", "Call 13 "))
    assert fits(browser)
    assert console(browser) == []


def test_a_line_of_the_summary_jumps_to_its_message_and_back(browser, recorded, tmp_path):
    show(browser, recorded, tmp_path)
    lines = css(browser, ".line button")
    assert len(lines) > 10
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", lines[2])
    lines[2].click()
    (found,) = css(browser, "#transcript .flash")
    assert is_in_sight(browser, found)
    assert found.get_attribute("data-status") == "summarized"
    place = lines[2].get_attribute("title").rpartition("#")[2]
    assert place.isdecimal()
    found.find_element("css selector", ".tag").click()
    (line,) = css(browser, "#request .flash")
    assert is_in_sight(browser, line)
    assert f" {int(found.get_attribute('id')[1:]) - 1} " in line.get_attribute("data-places")
    press(browser, "b")
    assert is_in_sight(browser, found)
    (find,) = css(browser, "#find")
    find.send_keys("handbook")
    assert 0 < len(css(browser, "#transcript article:not(.away)")) < 20
    assert console(browser) == []


def test_a_shortened_result_opens_to_the_full_text(browser, tmp_path):
    full = "\n".join(f"row {n}: a value that is {n * n}" for n in range(800))
    with TranscriptStore("sqlite://", shared=True) as store:
        looked = [message for n in range(6) for message in tool_round(n, full)]
        asked, now = HumanMessage("Look at the table."), HumanMessage("And now?")
        store.add("s1", [asked, *looked, AIMessage("Done."), now])
        page = session_page(StoredSessions(store), "s1", 40_000)
    show(browser, page, tmp_path)
    opens = css(browser, ".opens")
    assert opens
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", opens[0])
    opens[0].click()
    (box,) = css(browser, "pre.full")
    assert box.get_attribute("textContent") == full
    assert console(browser) == []


def test_hostile_content_stays_text(browser, tmp_path):
    with TranscriptStore("sqlite://", shared=True) as store:
        for text in HOSTILE:
            store.add("<script>s1</script>", [HumanMessage(text), AIMessage(text[:5_000])])
        page = session_page(StoredSessions(store), "<script>s1</script>", 16_000)
    show(browser, page, tmp_path)
    assert browser.title == "<script>s1</script> - tokenmem"
    assert len(css(browser, "script")) == 2
    assert not css(browser, "main img, #transcript svg")
    first = css(browser, "#m1 pre")[0]
    assert first.text == HOSTILE[0]
    assert fits(browser)
    long = css(browser, "#m7 .more:not(.tag)")[0]
    browser.execute_script("arguments[0].click()", long)
    assert len(css(browser, "#m7 pre")[0].get_attribute("textContent")) > 400_000
    assert console(browser) == []


def test_served_list_search_and_page(browser):
    browser.get("about:blank")  # the long line of the page before takes 20 s in another width
    browser.set_window_size(*SIZES["phone"])
    with opened(str(RECORDED)) as found, PageServer(found, 0, 6_000) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.get_log("browser")
        browser.get(server.address)
        (link,) = css(browser, "td a")
        assert link.text == "recorded-agent"
        assert fits(browser)
        (box,) = css(browser, "input[name=q]")
        box.send_keys("handbook\n")
        appeared(browser, "article a")[0].click()
        assert appeared(browser, "#transcript .flash")
        assert name(browser).startswith("Call 25")
        assert console(browser) == []
        server.shutdown()
