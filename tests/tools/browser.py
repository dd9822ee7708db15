"""A client of headless Chromium over the WebDriver protocol (JSON over HTTP to chromedriver)."""

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
    """A browser with an empty profile and one page."""

    def __init__(self, folder: Path, width: int = 1400, height: int = 900, *flags: str) -> None:
        self.process = subprocess.Popen(
            [str(DRIVER), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.address = f"http://127.0.0.1:{self._port()}"
        size = f"--window-size={width},{height}"
        args = [*FLAGS, *flags, f"--user-data-dir={folder}", size]
        options = {"binary": CHROMIUM, "args": args}
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        created = self._request("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.session = f"/session/{created['sessionId']}"

    def _port(self) -> int:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "started successfully on port" in line:
                return int(line.split()[-1].rstrip("."))
        raise RuntimeError("chromedriver did not start")

    def _request(self, method: str, path: str, content: Any = None) -> Any:
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self.address + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            failure = json.load(error)["value"]
            raise RuntimeError(f"{failure['error']}: {failure['message']}") from None

    def open(self, file: Path) -> None:
        """Opens a file."""
        self._request("POST", f"{self.session}/url", {"url": file.as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """Runs a script in the page and returns its result; waits for a promise."""
        content = {"script": script, "args": list(arguments)}
        return self._request("POST", f"{self.session}/execute/sync", content)

    def keys(self, text: str) -> None:
        """Presses keys one after another, at the focused element."""
        steps = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keyboard", "actions": steps}]
        self._request("POST", f"{self.session}/actions", {"actions": actions})

    def click(self, x: float, y: float) -> None:
        """Clicks at a position of the page."""
        move = {"type": "pointerMove", "x": int(x), "y": int(y)}
        steps = [move, *[{"type": f"pointer{action}", "button": 0} for action in ("Down", "Up")]]
        actions = [{"type": "pointer", "id": "mouse", "actions": steps}]
        self._request("POST", f"{self.session}/actions", {"actions": actions})

    def picture(self) -> bytes:
        """Returns a screenshot as PNG."""
        return base64.b64decode(self._request("GET", f"{self.session}/screenshot"))

    def errors(self) -> list[str]:
        """Returns the errors in the console log since the last call."""
        log = self._request("POST", f"{self.session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] == "SEVERE"]

    def close(self) -> None:
        """Closes the browser and its driver."""
        try:
            self._request("DELETE", self.session)
        finally:
            self.process.terminate()
            self.process.communicate(timeout=30)
