"""Opens pages that ecrl makes in a real headless Chromium and uses them as a person would.

    make browser      (or: python tools/browser_test.py report/index.html, with selenium installed)

Needs Debian's chromium and chromium-driver. Screenshots go to target/screenshots.
"""

import json
import pathlib
import sys
import time

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

SHOTS = pathlib.Path(__file__).parent.parent / "target/screenshots"


def browser(width, height, dark):
    options = webdriver.ChromeOptions()
    for flag in [
        "--headless=new",
        "--no-sandbox",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--allow-file-access-from-files",
        "--use-angle=swiftshader",
        "--enable-unsafe-swiftshader",
        f"--window-size={width},{height}",
    ]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.binary_location = "/usr/bin/chromium"
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}
    )
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    )
    return driver


def opened(driver, page):
    driver.get(page.resolve().as_uri())


def quiet(driver):
    """No error on the console, and nothing asked of any network."""
    errors = [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert not errors, errors
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            assert url.startswith(("file:", "data:", "blob:")), url


def shot(driver, name):
    SHOTS.mkdir(parents=True, exist_ok=True)
    driver.save_screenshot(str(SHOTS / f"{name}.png"))


def report(page):
    for width, height, dark in [(1400, 1000, False), (1400, 1000, True), (400, 800, False)]:
        driver = browser(width, height, dark)
        try:
            opened(driver, page)
            look = f"report-{width}-{'dark' if dark else 'light'}"
            shot(driver, look)
            overflow = driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
            assert overflow <= 0, f"{look}: {overflow} pixels too wide"
            panels = driver.find_elements(By.CSS_SELECTOR, ".panel")
            assert panels, "no panels"

            # The mouse over a curve reads values.
            ActionChains(driver).move_to_element(panels[0]).perform()
            tip = driver.find_element(By.CSS_SELECTOR, ".tip").text
            assert "steps" in tip and "n=" in tip, tip
            # So do the arrow keys, without a mouse.
            ActionChains(driver).move_to_element(driver.find_element(By.TAG_NAME, "h1")).perform()
            assert not driver.find_elements(By.CSS_SELECTOR, ".tip")
            panels[0].send_keys(Keys.END)
            end = driver.find_element(By.CSS_SELECTOR, ".tip").text
            panels[0].send_keys(Keys.ARROW_LEFT)
            assert driver.find_element(By.CSS_SELECTOR, ".tip").text != end
            shot(driver, f"{look}-tip")

            # An algorithm goes off and on, everywhere.
            box = driver.find_element(By.CSS_SELECTOR, "input[data-toggle]")
            name = box.get_attribute("data-toggle")
            parts = [e for e in driver.find_elements(By.CSS_SELECTOR, "[data-algorithm]") if e.get_attribute("data-algorithm") == name]
            visible = lambda: [e.is_displayed() for e in parts if e.tag_name != "details"]
            assert any(visible())
            box.send_keys(Keys.SPACE)
            assert not any(visible())
            box.send_keys(Keys.SPACE)
            assert any(visible())

            # So does a face.
            box = driver.find_element(By.CSS_SELECTOR, "input[data-toggle-face=sampled]")
            drawn = driver.find_elements(By.CSS_SELECTOR, "[data-face=sampled]")
            assert drawn and any(e.is_displayed() for e in drawn)
            box.send_keys(Keys.SPACE)
            assert not any(e.is_displayed() for e in drawn)
            box.send_keys(Keys.SPACE)

            # One task alone.
            select = Select(driver.find_element(By.ID, "task"))
            if len(select.options) > 2:
                select.select_by_index(1)
                shown = {e.get_attribute("data-task") for e in driver.find_elements(By.CSS_SELECTOR, ".task") if e.is_displayed()}
                assert shown == {select.options[1].get_attribute("value")}, shown
            for details in driver.find_elements(By.CSS_SELECTOR, "details")[:1]:
                select.select_by_index(0)
                details.find_element(By.TAG_NAME, "summary").click()
                assert details.find_element(By.TAG_NAME, "svg").is_displayed()
                driver.execute_script("arguments[0].scrollIntoView()", details)
                shot(driver, f"{look}-evolution")
            quiet(driver)
        finally:
            driver.quit()


def sheet(page):
    """A figure of the paper: ten panels, and a verdict on everything the paper says of them."""
    for width, height, dark in [(1700, 1100, False), (1700, 1100, True), (400, 800, False)]:
        driver = browser(width, height, dark)
        try:
            opened(driver, page)
            shot(driver, f"{page.stem}-{width}-{'dark' if dark else 'light'}")
            overflow = driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
            assert overflow <= 0, f"{page.stem}: {overflow} pixels too wide"
            assert len(driver.find_elements(By.CSS_SELECTOR, ".figure .threshold")) == 10
            verdicts = [e.text for e in driver.find_elements(By.CSS_SELECTOR, ".claims td:last-child")]
            assert verdicts and all(v.startswith(("agree", "disagree", "cannot tell")) for v in verdicts), verdicts
            quiet(driver)
        finally:
            driver.quit()


def pixels(driver):
    """The scene as the canvas holds it."""
    return driver.execute_script("return document.getElementById('scene').toDataURL()")


def shaded(driver):
    """Pixels of the scene that have the colour of the floor, but less than half of its light."""
    return driver.execute_script(
        "const c = document.getElementById('scene'), g = c.getContext('webgl'), n = c.width * c.height * 4;"
        "const p = new Uint8Array(n); g.readPixels(0, 0, c.width, c.height, g.RGBA, g.UNSIGNED_BYTE, p); let dark = 0;"
        "for (let i = 0; i < n; i += 4) dark += p[i] > 40 && p[i] < 85 && Math.abs(p[i + 1] / p[i] - 1.09) < 0.03"
        " && Math.abs(p[i + 2] / p[i] - 1.17) < 0.06; return dark"
    )


def playback(page):
    for width, height, dark in [(1300, 850, False), (400, 800, True)]:
        driver = browser(width, height, dark)
        try:
            opened(driver, page)
            look = f"{page.stem}-{width}"
            button, slider = driver.find_element(By.ID, "play"), driver.find_element(By.ID, "time")
            step = lambda: int(slider.get_attribute("value"))
            Select(driver.find_element(By.ID, "speed")).select_by_visible_text("0.25")
            if button.text == "play":
                # A short episode is over before anybody has looked.
                assert step() == int(slider.get_attribute("max")), "it plays at once"
                button.click()
            assert button.text == "pause", "it plays at once"
            WebDriverWait(driver, 20).until(lambda _: step() > 3)
            button.click()
            assert button.text == "play"
            still = step()
            time.sleep(0.3)
            assert step() == still, "paused"
            colours = driver.execute_script(
                "const c = document.getElementById('scene'), g = c.getContext('webgl'), n = c.width * c.height * 4;"
                "const p = new Uint8Array(n); g.readPixels(0, 0, c.width, c.height, g.RGBA, g.UNSIGNED_BYTE, p);"
                "const seen = new Set(); for (let i = 0; i < n; i += 4) seen.add(p[i] << 16 | p[i + 1] << 8 | p[i + 2]); return seen.size"
            )
            assert colours > 50, f"an empty canvas: {colours} colours"
            before = pixels(driver)
            last = int(slider.get_attribute("max"))
            driver.execute_script(
                "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", slider, last // 2
            )
            assert step() == last // 2
            middle = pixels(driver)
            assert middle != before, "the robot does not move"
            shot(driver, f"{look}-middle")
            driver.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_RIGHT)
            assert step() == last // 2 + 1
            driver.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_LEFT)
            assert pixels(driver) == middle, "the same step looks the same"
            if not dark:
                assert shaded(driver) > 200, f"no shadow: {shaded(driver)} dark pixels"

            # The help is there, and what it says is true.
            help = driver.find_element(By.ID, "help")
            assert help.is_displayed() and all(word in help.text for word in ["drag", "pinch", "double click", "space"]), help.text
            scene = driver.find_element(By.ID, "scene")
            ActionChains(driver).drag_and_drop_by_offset(scene, 80, 30).perform()
            turned = pixels(driver)
            assert turned != middle, "dragging does not turn the view"
            ActionChains(driver).scroll_from_origin(ScrollOrigin.from_element(scene), 0, 200).perform()
            WebDriverWait(driver, 5).until(lambda _: pixels(driver) != turned)
            ActionChains(driver).double_click(scene).perform()
            assert pixels(driver) == middle, "a double click does not reset the view"
            driver.find_element(By.TAG_NAME, "body").send_keys(Keys.SPACE)
            assert button.text == "pause"
            driver.find_element(By.TAG_NAME, "body").send_keys(Keys.SPACE)

            # A click in a chart goes there, and so does a drag.
            for paper in driver.find_elements(By.CSS_SELECTOR, "figure canvas")[:3]:
                middle_of = paper.size["width"] // 2
                ActionChains(driver).move_to_element_with_offset(paper, 44 - middle_of, 0).click().perform()
                assert step() <= 0.01 * last + 1, step()
                ActionChains(driver).move_to_element_with_offset(paper, 44 - middle_of, 0).click_and_hold().move_to_element(
                    paper
                ).release().perform()
                assert 0.4 * last < step() < 0.6 * last and button.text == "play", (step(), last)

            # Every motor has the name of its joint; a fall is said and marked.
            data = json.loads(driver.find_element(By.ID, "data").get_attribute("textContent"))
            captions = [e.text for e in driver.find_elements(By.CSS_SELECTOR, "figcaption")]
            for name in data["action_names"]:
                assert any(c.startswith(f"{name} {data['action_unit']}") for c in captions), captions
            told, marks = driver.find_element(By.ID, "told").text, driver.find_elements(By.ID, "fall")
            assert "the median of 9 episodes by return" in told, told
            assert all(f"{'mean' if c['mean'] else 'sum'} {c['name']}" in told for c in data["constraints"]), told
            ended = data["ended"]
            assert (ended is not None) == (f"{ended} at" in told) == bool(marks), (told, marks)
            if marks:
                assert marks[0].is_displayed() and f"{ended} at" in marks[0].get_attribute("title")
                red = driver.execute_script(
                    "const c = document.querySelector('figure canvas'), w = c.width, p = c.getContext('2d').getImageData(w - 20, 40, 20, 1).data;"
                    "let red = 0; for (let i = 0; i < p.length; i += 4) red += p[i + 3] > 200 && p[i] > 150 && p[i + 1] < 130; return red"
                )
                assert red, "the fall is not marked in the chart"
                driver.execute_script("go(1e9)")
                assert ended in driver.find_element(By.ID, "clock").text
                shot(driver, f"{look}-end")
                driver.execute_script("go(arguments[0])", last // 2)
            Select(driver.find_element(By.ID, "speed")).select_by_visible_text("4")
            button.click()
            WebDriverWait(driver, 20).until(lambda _: step() > last // 2 + 8)
            texts = [e.text for e in driver.find_elements(By.CSS_SELECTOR, "figcaption")]
            assert all(any(word in t for t in texts) for word in ["reward", *(c["name"] for c in data["constraints"])]), texts
            assert driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth") <= 0
            shot(driver, look)
            quiet(driver)
        finally:
            driver.quit()


if __name__ == "__main__":
    for name in map(pathlib.Path, sys.argv[1:]):
        kinds = {"index": report, "dilemma": sheet, "compare": sheet, "ablation": sheet}
        kinds.get(name.stem, playback)(name)
        print(f"{name}: ok")
