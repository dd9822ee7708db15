"""A headless Chromium, driven over the WebDriver protocol: plain JSON over HTTP to chromedriver."""

import base64
import json
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")
MISSING = "no browser: install chromium and chromedriver (apt-get install chromium chromium-driver)"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


class Browser:
    """One browser with an empty profile, and the page that it shows."""

    def __init__(self, folder: Path, width: int = 1400, height: int = 900, *flags: str) -> None:
        self.process = subprocess.Popen(
            [str(DRIVER), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.place = f"http://127.0.0.1:{self._port()}"
        size = f"--window-size={width},{height}"
        args = [*FLAGS, *flags, f"--user-data-dir={folder}", size]
        options = {"binary": CHROMIUM, "args": args}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{made['sessionId']}"

    def _port(self) -> int:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "started successfully on port" in line:
                return int(line.split()[-1].rstrip("."))
        raise RuntimeError("chromedriver did not start")

    def _ask(self, method: str, path: str, content: Any = None) -> Any:
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self.place + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            told = json.load(error)["value"]
            raise RuntimeError(f"{told['error']}: {told['message']}") from None

    def open(self, file: Path) -> None:
        """Show a file."""
        self._ask("POST", f"{self.session}/url", {"url": file.as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script of the page returns; a promise is waited for."""
        content = {"script": script, "args": list(arguments)}
        return self._ask("POST", f"{self.session}/execute/sync", content)

    def keys(self, text: str) -> None:
        """Press keys, one after another, wherever the focus is."""
        steps = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keyboard", "actions": steps}]
        self._ask("POST", f"{self.session}/actions", {"actions": actions})

    def click(self, x: float, y: float) -> None:
        """Press the pointer at a place of the page."""
        move = {"type": "pointerMove", "x": int(x), "y": int(y)}
        steps = [move, *[{"type": f"pointer{way}", "button": 0} for way in ("Down", "Up")]]
        actions = [{"type": "pointer", "id": "mouse", "actions": steps}]
        self._ask("POST", f"{self.session}/actions", {"actions": actions})

    def picture(self) -> bytes:
        """What can be seen, as a PNG."""
        return base64.b64decode(self._ask("GET", f"{self.session}/screenshot"))

    def complaints(self) -> list[str]:
        """Errors that the page has written since this was asked last."""
        log = self._ask("POST", f"{self.session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] == "SEVERE"]

    def close(self) -> None:
        """End the browser and its driver."""
        try:
            self._ask("DELETE", self.session)
        finally:
            self.process.terminate()
            self.process.communicate(timeout=30)
