"""Uses the live page as a person would, in a real headless Chromium.

    make live       (or: target/browser/bin/python tools/live_test.py, with selenium, Debian's chromium and chromium-driver)

Runs that begin, grow, fail, are killed and resumed, and are deleted while shown; two browsers; by keyboard alone; dark; phone. Then how
fast it is with a thousand runs, and what it does with requests it must not answer. Screenshots go to target/screenshots.
"""

import atexit
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from browser_test import SHOTS, browser
from engines import free_ports
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

ROOT = pathlib.Path(__file__).resolve().parent.parent
ECRL = str(ROOT / "target/release/ecrl")
FAST = ["--set", "hidden=[16,16]"]


class Server:
    """`ecrl live` on some folders."""

    def __init__(self, *words):
        self.port = free_ports(1)[0]
        self.process = subprocess.Popen([ECRL, "live", *map(str, words), "--quiet", "--port", str(self.port)], stdout=subprocess.PIPE, text=True)
        # Whatever fails: nothing is left running.
        atexit.register(self.process.kill)
        self.url = self.process.stdout.readline().strip()

    def get(self, path, **headers):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) / 1024

    def end(self):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(10) == 0


class Page:
    def __init__(self, url, width=1400, height=900, dark=False):
        self.driver = browser(width, height, dark)
        self.driver.get(url)
        self.body = self.driver.find_element(By.TAG_NAME, "body")

    def keys(self, *keys):
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()
            time.sleep(0.15)

    def text(self, css):
        return self.driver.execute_script("return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)", css)

    def wait(self, what, name, seconds=20):
        try:
            return WebDriverWait(self.driver, seconds, poll_frequency=0.1).until(lambda _: what())
        except Exception:
            self.shot("live-failed")
            raise AssertionError(f"{name}: waited {seconds} s") from None

    def rows(self):
        return self.text("#rows tr td.name")

    def states(self):
        return self.driver.execute_script("return Object.fromEntries([...document.querySelectorAll('#rows tr')].map((tr) => [tr.querySelector('.name').firstChild.nextSibling.textContent, tr.querySelector('.dot').title]))")

    def lines(self, key):
        """The lines of a chart, with how many points each has."""
        return self.driver.execute_script("const one = panels.get(arguments[0]); return one ? one.lines.map((line) => [line.name, line.xs.length, Math.max(...line.ys)]) : []", key)

    def shot(self, name):
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(SHOTS / f"{name}.png"))

    def quiet(self):
        errors = [entry for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        assert not errors, errors
        elsewhere = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            url = message.get("params", {}).get("request", {}).get("url", "")
            if url.startswith("http") and "//127.0.0.1:" not in url:
                elsewhere.append(url)
        assert not elsewhere, elsewhere

    def end(self):
        self.driver.quit()


def train(folder, name, *words, wait=True):
    command = [ECRL, "train", *words, *FAST, "--quiet", "--out", str(folder / name)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if wait:
        assert process.wait() == 0, command
    return process


def story(folder):
    """A day of a person with the page."""
    runs = folder / "runs"
    runs.mkdir()
    server = Server(runs)
    page = Page(server.url)
    page.wait(lambda: "no runs yet" in page.text("#none")[0], "an empty page")
    # A run begins, and grows while it is looked at.
    going = train(runs, "first", "hopper", "--algo", "ipo", "--preset", "fast", "--steps", "2e7", wait=False)
    page.wait(lambda: page.states().get("first") == "going", "the run to appear")
    page.wait(lambda: page.lines("reward") and page.lines("reward")[0][1] > 2, "its curve", 60)
    before = page.lines("reward")[0][1]
    page.wait(lambda: page.lines("reward")[0][1] > before, "the curve to grow", 60)
    # Its robot, and another page of the same.
    page.wait(lambda: (runs / "first/best.safetensors").exists(), "a best policy", 60)
    page.keys("3")
    frame = page.wait(lambda: page.driver.find_elements(By.CSS_SELECTOR, "#frame iframe"), "the robot")[0]
    page.driver.switch_to.frame(frame)
    page.wait(lambda: page.driver.find_elements(By.ID, "scene") and "reward" in page.text("#told")[0], "the robot's page")
    page.driver.switch_to.default_content()
    first = frame.get_attribute("src")
    time.sleep(1)
    page.shot("live-robot")
    page.wait(lambda: page.driver.find_element(By.CSS_SELECTOR, "#frame iframe").get_attribute("src") != first, "a better robot", 90)
    other = Page(server.url, 390, 800, True)
    other.wait(lambda: other.states().get("first") == "going", "the other browser")
    other.wait(lambda: other.lines("reward") and other.lines("reward")[0][1] > 2, "the curve on the phone")
    width = other.driver.execute_script("return document.documentElement.scrollWidth")
    assert width <= 390, f"the page is {width} wide on a phone"
    other.shot("live-phone-dark")
    # Killed, resumed, and failed.
    going.kill()
    going.wait()
    for one in (page, other):
        one.wait(lambda: one.states().get("first") == "stopped", "the run to be seen stopped")
    resumed = subprocess.Popen([ECRL, "resume", str(runs / "first"), "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    page.wait(lambda: page.states().get("first") == "going", "the run to go on")
    resumed.terminate()
    resumed.wait()
    (runs / "first/failure.txt").write_text("a <b>tensor</b> <script>document.title='x'</script> is not finite\n")
    page.wait(lambda: page.states().get("first") == "failed", "the run to be seen failed")
    assert "<b>tensor</b>" in page.rows()[0] and page.driver.title == "ecrl live"
    # Several runs: filter, overlay, bands, smoothing, logarithm, time, brush; by keyboard alone.
    for seed in (0, 1, 2):
        train(runs, f"swim-{seed}", "swimmer", "--algo", "ppo-lag", "--steps", "2e5", "--seed", str(seed))
    train(runs, "evolved", "swimmer", "--preset", "quick", "--steps", "4e4")
    page.wait(lambda: len(page.rows()) == 5, "five runs")
    page.keys("1", "/")
    page.driver.switch_to.active_element.send_keys("swim- ppo", Keys.ENTER)
    page.wait(lambda: len(page.rows()) == 3, "the filter")
    by_reward = page.driver.execute_script("return [...runs.values()].filter((row) => row.run.startsWith('swim')).sort((a, b) => b.reward - a.reward).map((row) => row.run)")
    page.driver.execute_script("set('filter', 'swim- sort:rew')")
    page.wait(lambda: [row.split("swimmer")[0] for row in page.rows()] == by_reward, "the order")
    page.driver.execute_script("set('filter', 'swim- ppo')")
    page.keys("a")
    page.wait(lambda: len(page.lines("reward")) == 3 and all(line[1] > 2 for line in page.lines("reward")), "three curves")
    raw = page.lines("reward")[0][2]
    page.keys("]", "]", "]", "]")
    page.wait(lambda: page.lines("reward")[0][2] < raw, "smoothing")
    page.keys("g")
    page.wait(lambda: [line[0] for line in page.lines("reward")] == ["swimmer ppo-lag hidden=[16,16], n = 3"], "bands")
    page.shot("live-bands")
    page.keys("g", "[", "[", "[", "[", "t", "l", "f")
    page.wait(lambda: "sampled actions" in page.text("#charts figcaption span")[0], "the other face")
    assert Select(page.driver.find_element(By.ID, "over")).first_selected_option.text == "time"
    page.keys("t", "l", "f")
    canvas = page.driver.find_elements(By.CSS_SELECTOR, "#charts canvas")[0]
    page.driver.execute_script("arguments[0].focus()", canvas)
    page.keys(Keys.ARROW_LEFT)
    assert "steps" in page.text(".tip")[0] and "swim-0" in page.text(".tip")[0], page.text(".tip")
    ActionChains(page.driver).move_to_element_with_offset(canvas, -40, 0).click_and_hold().move_by_offset(60, 0).move_by_offset(60, 0).release().perform()
    low, high = page.wait(lambda: page.driver.execute_script("return zoom"), "the brush")
    assert 0 < low < high < 2.1e5, (low, high)
    page.shot("live-brush")
    page.keys(Keys.ESCAPE)
    page.wait(lambda: page.driver.execute_script("return zoom") is None, "all of the axis")
    # Another metric, and figures.
    Select(page.driver.find_element(By.ID, "more")).select_by_value("entropy")
    page.wait(lambda: len(page.lines("more")) == 3, "another metric")
    page.driver.execute_script("window.given = []; const old = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.arrayBuffer().then((bytes) => given.push([blob.type, new TextDecoder('latin1').decode(bytes.slice(0, 300)), bytes.byteLength])); return old(blob); }")
    for button in page.driver.find_elements(By.CSS_SELECTOR, "#charts figure:first-child button"):
        button.click()
    given = page.wait(lambda: (lambda all: all if len(all) == 4 else None)(page.driver.execute_script("return given")), "four files")
    kinds = {kind: (head, size) for kind, head, size in given}
    assert kinds["image/svg+xml"][0].startswith("<svg") and kinds["image/png"][0][1:4] == "PNG", kinds
    assert kinds["application/pdf"][0].startswith("%PDF-") and kinds["text/csv"][0].startswith("line,x,y"), kinds
    # Populations, by keyboard.
    page.keys("/")
    box = page.driver.switch_to.active_element
    box.clear()
    box.send_keys("evolved", Keys.ENTER)
    page.wait(lambda: len(page.rows()) == 1, "the evolved run")
    page.keys(Keys.ENTER, "2")
    page.wait(lambda: "keep every constraint" in page.text("#who")[0], "the population")
    newest = page.text("#which")[0]
    page.keys(Keys.ARROW_LEFT)
    page.wait(lambda: page.text("#which")[0] != newest, "the generation before")
    page.shot("live-population")
    page.keys("p")
    page.wait(lambda: "the newest" in page.text("#which")[0] or page.text("#go")[0] == "pause", "play")
    # Two beside each other; one whole.
    box.clear()
    page.keys(Keys.ESCAPE)
    page.driver.execute_script("set('filter', '')")
    page.wait(lambda: len(page.rows()) == 5, "all of them")
    page.keys("x", "s", "4")
    for _ in range(2):
        page.keys("j", " ")
    page.wait(lambda: "reward, mean / sampled" in page.text("#compare td"), "the comparison")
    page.shot("live-compare")
    page.keys("5")
    page.wait(lambda: page.text("#about h2"), "values")
    # Deleted while it is shown.
    page.keys("1", "a")
    shutil.rmtree(runs / "swim-1")
    for one in (page, other):
        one.wait(lambda: "swim-1" not in one.states(), "the run to be gone")
    # The same after a reload.
    page.keys("g")
    page.driver.refresh()
    page.wait(lambda: page.driver.find_element(By.ID, "band").is_selected(), "what was looked at")
    for one in (page, other):
        one.quiet()
        one.end()
    server.end()
    print("a day with the page: passed", flush=True)


def speed(folder):
    """A thousand runs of a thousand points; ten that grow; a day of updates."""
    train(folder, "one", "swimmer", "--algo", "ppo", "--preset", "fast", "--steps", "4096")
    run = folder / "one"
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    tested = next(record for record in records if "learner_reward" in record)
    plain = next((record for record in records if "learner_reward" not in record), {k: v for k, v in tested.items() if not k.startswith(("learner", "sampled", "best"))})

    def line(i, seed):
        record = dict(tested if i % 10 == 0 else plain)
        record.update(generation=i, env_steps=2000 * i, seconds=1.5 * i)
        if "learner_reward" in record:
            record.update(learner_reward=100 * (1 + seed % 7) * (1 - 2 ** (-i / 200)) + (i * 7919 % 13))
        return json.dumps(record) + "\n"

    many = folder / "many"
    config = (run / "config.toml").read_text().replace("steps = 4096", "steps = 2000000")
    logs = ["".join(line(i, seed) for i in range(1, 1001)) for seed in range(7)]
    for i in range(1000):
        one = many / f"run-{i}"
        one.mkdir(parents=True)
        (one / "config.toml").write_text(config.replace("seed = 0\n", f"seed = {i}\n"))
        (one / "metrics.jsonl").write_text(logs[i % 7])
    began = time.monotonic()
    server = Server(many)
    while len(json.loads(event(server)[1])["rows"]) < 1000:
        time.sleep(0.05)
    print(f"a thousand runs of a thousand points: read {time.monotonic() - began:.2f} s after the start", flush=True)
    began = time.monotonic()
    page = Page(server.url)
    page.wait(lambda: page.driver.execute_script("return document.querySelectorAll('#rows tr').length") == 1000, "a thousand rows")
    shown = page.driver.execute_script("return performance.getEntriesByName('listed')[0].startTime") / 1000
    print(f"the list {shown:.2f} s after the page was asked for", flush=True)
    assert shown < 1
    page.driver.execute_script("choose(listed.slice(0, 50))")
    page.wait(lambda: len(page.lines("reward")) == 50, "fifty curves")
    page.shot("live-thousand")
    took = page.driver.execute_script("""
        const all = [];
        for (let i = 0; i < 20; i++) { const at = performance.now(); for (const [key, one] of panels) if (key === 'reward') { one.lines = lines_of('learner_reward', [...rank().keys()]); paint(one); one.canvas.getContext('2d').getImageData(0, 0, 1, 1); } all.push(performance.now() - at); }
        return all.sort((a, b) => a - b)[10];""")
    print(f"a chart of fifty runs is drawn anew in {took:.1f} ms", flush=True)
    assert took < 100
    # What this measurement itself was warned of.
    page.driver.get_log("browser")
    # Ten grow, a line a second each.
    before, at, memory = server.cpu(), time.monotonic(), server.memory()
    generation = 1000
    for _ in range(20):
        generation += 1
        for i in range(10):
            with open(many / f"run-{i}/metrics.jsonl", "a") as log:
                log.write(line(generation, i))
        time.sleep(1)
    used = (server.cpu() - before) / (time.monotonic() - at)
    print(f"the server takes {100 * used:.2f} % of a core while ten runs of a thousand grow, with a browser that shows fifty", flush=True)
    # A day: as many lines as ten runs write in one, as fast as they are taken.
    heap = page.driver.execute_script("return performance.memory.usedJSHeapSize") / 1e6
    for _ in range(60):
        for i in range(10):
            with open(many / f"run-{i}/metrics.jsonl", "a") as log:
                log.write("".join(line(generation + k, i) for k in range(144)))
        generation += 144
        time.sleep(0.4)
    time.sleep(4)
    page.driver.execute_script("window.gc?.()")
    after = page.driver.execute_script("return performance.memory.usedJSHeapSize") / 1e6
    print(f"after 86,400 lines more: the server has {server.memory():.0f} MB, {memory:.0f} before; the page {after:.0f} MB, {heap:.0f} before", flush=True)
    assert server.memory() < memory + 60 and after < heap + 30
    assert used < 0.01
    page.quiet()
    page.end()
    server.end()


def event(server):
    """The first event: all rows."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/events", timeout=20) as answer:
        kind, data = answer.readline(), answer.readline()
        return kind.decode().split(": ")[1].strip(), data.decode().removeprefix("data: ")


def refused(folder):
    """What must not be answered."""
    secret = folder / "secret.txt"
    secret.write_text("secret")
    runs = folder / "guarded"
    train(runs, "one", "swimmer", "--algo", "ppo", "--steps", "4096")
    (runs / "linked").symlink_to(folder / "elsewhere")
    train(folder / "elsewhere", "hidden", "swimmer", "--algo", "ppo", "--steps", "4096")
    odd = runs / "odd"
    shutil.copytree(runs / "one", odd)
    (odd / "population.jsonl").symlink_to(secret)
    (runs / "<img src=x onerror=alert(1)>").mkdir()
    for name in ("config.toml", "metrics.jsonl"):
        shutil.copy(runs / "one" / name, runs / "<img src=x onerror=alert(1)>" / name)
    server = Server(runs)
    rows = json.loads(event(server)[1])["rows"]
    while len(rows) < 3:
        rows = json.loads(event(server)[1])["rows"]
        time.sleep(0.2)
    names = [row["run"] for _, row in rows]
    assert "hidden" not in str(names) and len(names) == 3, names
    for path in ("/../secret.txt", "/..%2fsecret.txt", f"{secret}", f"//{secret}", "/runs/one/config.toml", "/robot?run=../secret", f"/series?run={secret}", "/series?run=99&names=x", "/about?run=-1", "/%00", "/x" * 500):
        status, body = server.get(path)
        assert status in (400, 404) and b"secret" not in body.replace(b"/secret", b""), (path, status, body)
    for number, row in rows:
        status, body = server.get(f"/population?run={number}")
        assert b"secret" not in body, body
    assert server.get("/", Host="evil.example")[0] == 403
    assert server.get("/", **{"X-Large": "a" * 100_000})[0] in (400, 431)
    for method in ("PUT", "DELETE", "POST"):
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}/about?run=1", method=method, data=b"x")
        try:
            urllib.request.urlopen(request, timeout=10)
            raise SystemExit(f"{method} was answered")
        except urllib.error.HTTPError as error:
            assert error.code == 405
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/pdf", method="POST", data=b"x" * (9 << 20))
    with contextlib.suppress(urllib.error.URLError, ConnectionError):
        urllib.request.urlopen(request, timeout=10)
    # Ten thousand connections, most of them one after the other: as many as one process may have open.
    sockets = []
    for i in range(10_000):
        with contextlib.suppress(OSError):
            one = socket.create_connection(("127.0.0.1", server.port), timeout=2)
            one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            sockets.append(one)
        if len(sockets) >= 900:
            for one in sockets[:450]:
                one.close()
            del sockets[:450]
    for one in sockets:
        one.close()
    time.sleep(0.5)
    assert server.get("/")[0] == 200
    page = Page(server.url)
    page.wait(lambda: any("<img" in row for row in page.rows()), "the odd name")
    assert not page.driver.execute_script("return document.querySelector('#rows img')")
    page.quiet()
    page.end()
    server.end()
    # Where others reach it, they need the token.
    server = Server(runs, "--listen", "0.0.0.0")
    token = server.url.split("token=")[1]
    assert server.get("/")[0] == 403 and server.get("/?token=" + "0" * len(token))[0] == 403
    assert server.get(f"/?token={token}")[0] == 200
    page = Page(f"http://127.0.0.1:{server.port}/?token={token}")
    page.wait(lambda: len(page.rows()) == 3, "rows with a token")
    page.quiet()
    page.end()
    server.end()
    print("what must not be answered is not; text stays text", flush=True)


def beside(folder):
    """`train --live`."""
    out = folder / "beside/run"
    command = [ECRL, "train", "hopper", "--algo", "ipo", "--preset", "fast", "--steps", "1e8", "--live", "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    url = process.stdout.readline().strip().removeprefix("live: ")
    page = Page(url)
    page.wait(lambda: page.states().get("run") == "going", "the training")
    page.wait(lambda: page.lines("reward") and page.lines("reward")[0][1] > 1, "its curve", 60)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    page.wait(lambda: "gone" in page.text("#link")[0], "the end to be told")
    page.end()
    print("beside a training: passed", flush=True)


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ecrl-live-"))
    try:
        for part in [globals()[name] for name in sys.argv[1:]] or (story, beside, refused, speed):
            (folder / part.__name__).mkdir()
            part(folder / part.__name__)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
