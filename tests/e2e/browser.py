"""Drives Chromium over the DevTools protocol, with nothing but the standard library.

    with Browser(folder) as browser:
        page = browser.page(width=390, dark=True)
        page.open('http://127.0.0.1:8410/')
        page.wait('document.title == "Roll"')
"""
import base64
import json
import os
import select
import shutil
import subprocess
import time

PROGRAMS = ('chromium-headless-shell', 'chromium')
PATIENCE_S = float(os.environ.get('ROLL_E2E_PATIENCE_S', '120'))

# Returns the visible texts whose contrast with their ground is below 4.5, as [text, contrast].
CONTRAST = '''(() => {
  const parse = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement, text = node.data.trim();
    if (!text || /^(SCRIPT|NOSCRIPT|STYLE)$/.test(element.tagName) || !element.checkVisibility()) continue;
    const style = getComputedStyle(element), svg = element instanceof SVGElement;
    if (svg && element.classList.contains('op')) continue;  // the ground is a box beside the text
    const colours = [light(parse(svg ? style.fill : style.color)), light(ground(element))].sort((a, b) => b - a);
    const contrast = (colours[0] + 0.05) / (colours[1] + 0.05);
    if (contrast < 4.5) low.push([text.slice(0, 40), element.className, Math.round(contrast * 100) / 100]);
  }
  return low;
})()'''


class Browser:
    """A Chromium process with a profile of its own."""

    def __init__(self, folder, env=None):
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if not program:
            raise FileNotFoundError(f'none of {", ".join(PROGRAMS)} is installed; packaging/setup --tests installs it')
        to_browser, from_us = os.pipe()
        to_us, from_browser = os.pipe()
        command = [program, '--remote-debugging-pipe', f'--user-data-dir={folder}/chromium', '--no-sandbox',
                   '--headless', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
                   '--disable-background-networking']
        with open(f'{folder}/chromium.txt', 'wb') as log:
            self.process = subprocess.Popen(
                ['bash', '-c', f'exec "$@" 3<&{to_browser} 4>&{from_browser}', 'browser', *command],
                pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        os.close(to_browser)
        os.close(from_browser)
        self.write, self.read = from_us, to_us
        self.rest, self.last, self.replies, self.pages = b'', 0, {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        os.close(self.write)
        os.close(self.read)

    def pump(self, patience_s):
        """Takes the messages that arrive within this time. Returns whether there were any."""
        if not select.select([self.read], [], [], patience_s)[0]:
            return False
        data = os.read(self.read, 1 << 20)
        if not data:
            raise AssertionError('Chromium has ended')
        *messages, self.rest = (self.rest + data).split(b'\0')
        for text in messages:
            message = json.loads(text)
            if 'id' in message:
                self.replies[message['id']] = message
            elif message.get('sessionId') in self.pages:
                self.pages[message['sessionId']].take(message['method'], message['params'])
        return True

    def call(self, method, session=None, **params):
        self.last += 1
        message = {'id': self.last, 'method': method, 'params': params}
        if session:
            message['sessionId'] = session
        os.write(self.write, json.dumps(message).encode() + b'\0')
        number, deadline = self.last, time.monotonic() + PATIENCE_S
        while number not in self.replies:
            if not self.pump(1) and time.monotonic() > deadline:
                raise AssertionError(f'Chromium did not answer {method}')
        reply = self.replies.pop(number)
        if 'error' in reply:
            raise AssertionError(f'{method}: {reply["error"]["message"]}')
        return reply['result']

    def page(self, width=1280, height=900, dark=False):
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        session = self.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        page = self.pages[session] = Page(self, session)
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            page.call(f'{domain}.enable')
        page.look(width, height, dark)
        return page


class Page:
    """A tab. `errors` has its console errors, exceptions, refused content and dialogs of scripts."""

    def __init__(self, browser, session):
        self.browser, self.session, self.errors = browser, session, []
        self.answers = None  # function of a request's URL that returns (type, body), or None

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def send(self, method, **params):
        """Sends a command while messages are taken, without a wait for the reply."""
        self.browser.last += 1
        os.write(self.browser.write, json.dumps({'id': self.browser.last, 'method': method, 'params': params,
                                                 'sessionId': self.session}).encode() + b'\0')

    def take(self, method, params):
        if method == 'Runtime.exceptionThrown':
            detail = params['exceptionDetails']
            self.errors.append(detail.get('exception', {}).get('description', detail['text']))
        elif method == 'Log.entryAdded' and params['entry']['level'] == 'error':
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == 'Runtime.consoleAPICalled' and params['type'] in ('error', 'assert'):
            self.errors.append(str(params['args']))
        elif method == 'Page.javascriptDialogOpening':
            self.errors.append('a script opened a dialog: ' + params['message'])
            self.send('Page.handleJavaScriptDialog', accept=False)
        elif method == 'Fetch.requestPaused':
            found = self.answers(params['request']['url']) if self.answers else None
            if found is None:
                self.send('Fetch.continueRequest', requestId=params['requestId'])
            else:
                self.send('Fetch.fulfillRequest', requestId=params['requestId'], responseCode=200,
                          responseHeaders=[{'name': 'Content-Type', 'value': found[0]}],
                          body=base64.b64encode(found[1].encode()).decode())

    def answer(self, answers):
        """Lets answers(url) reply to the page's requests instead of the server."""
        self.answers = answers
        self.call('Fetch.enable', patterns=[{'urlPattern': '*/api/*'}])

    def look(self, width, height=900, dark=False):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call('Emulation.setEmulatedMedia', features=[
            {'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])

    def open(self, url):
        self.call('Page.navigate', url=url)

    def run(self, expression):
        """Returns the value of a JavaScript expression, or of its promise."""
        result = self.call('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in result:
            raise AssertionError(f'{expression}: {result["exceptionDetails"].get("exception", {}).get("description")}')
        return result['result'].get('value')

    def wait(self, expression, patience_s=30):
        """Returns the first true value of the expression."""
        deadline = time.monotonic() + patience_s
        while True:
            value = self.run(f'(() => {{ try {{ return {expression}; }} catch {{ return null; }} }})()')
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f'waited {patience_s} s in vain for {expression}; the page shows: '
                                     + str(self.text())[:1500] + f'; errors: {self.errors}')
            self.browser.pump(0.05)

    def text(self):
        return self.run('document.body.innerText')

    def wait_text(self, text):
        return self.wait(f'document.body.innerText.includes({json.dumps(text)})')

    def press(self, key):
        codes = {'Enter': 13, 'Escape': 27, 'Tab': 9}
        text = {'Enter': '\r'}.get(key, key if len(key) == 1 else '')
        for kind in ('keyDown', 'keyUp'):
            self.call('Input.dispatchKeyEvent', type=kind, key=key, text=text if kind == 'keyDown' else '',
                      windowsVirtualKeyCode=codes.get(key, ord(key[0].upper())))

    def click(self, words):
        """Clicks the button or link with this text, as a person does."""
        found = ('[...document.querySelectorAll("button, a")].filter(one => one.checkVisibility() && '
                 f'one.textContent.trim() == {json.dumps(words)}).at(-1)')
        self.wait(found + ' !== undefined')
        x, y = self.run(f'(() => {{ const one = {found}; one.scrollIntoView({{block: "nearest"}}); '
                        'const box = one.getBoundingClientRect(); '
                        'return [box.x + box.width / 2, box.y + box.height / 2]; })()')
        for kind in ('mousePressed', 'mouseReleased'):
            self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', clickCount=1)

    def picture(self, path, whole=False):
        picture = self.call('Page.captureScreenshot', format='png', captureBeyondViewport=whole)
        with open(path, 'wb') as file:
            file.write(base64.b64decode(picture['data']))

    def low_contrasts(self):
        return self.run(CONTRAST)

    def width(self):
        """Returns the width of the page's content."""
        return self.run('document.documentElement.scrollWidth')
