// A headless Chromium and one tab in it, driven by the DevTools protocol over the WebSocket that Node has.

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** Milliseconds that a condition may take to come true, and the browser to start. */
const PATIENCE_MS = 60_000;

export function assert(holds, words) {
  if (!holds) throw new Error(words);
}

export function assertEqual(found, expected, words) {
  const [one, other] = [found, expected].map((value) => JSON.stringify(value));
  assert(one === other, `${words}: ${one} is not ${other}`);
}

/** A browser of its own, with a profile that goes with it. */
export class Chromium {
  static async start({ width = 1280, height = 900 } = {}) {
    const profile = mkdtempSync(join(tmpdir(), 'skillrun-page-'));
    const child = spawn('chromium', [
      '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--hide-scrollbars',
      '--disable-background-networking', '--disable-component-update', '--disable-sync', '--lang=en-US',
      '--remote-debugging-port=0', `--user-data-dir=${profile}`, `--window-size=${width},${height}`, 'about:blank',
    ], { stdio: ['ignore', 'ignore', 'pipe'] });
    const browser = new Chromium(child, profile);
    try {
      await browser.#connect(await endpoint(child));
    } catch (error) {
      await browser.close();
      throw error;
    }
    return browser;
  }

  #asked = new Map();
  #heard = new Map();
  #next = 1;
  /** What the policy refused in documents that are gone. */
  #violations = [];

  constructor(child, profile) {
    this.child = child;
    this.profile = profile;
    /** Every address that the tab asked for anything. */
    this.addresses = [];
    /** What the page wrote to its console as an error, and what it did not catch. */
    this.errors = [];
    this.gone = new Promise((resolve) => { child.once('exit', resolve); });
  }

  async #connect(url) {
    this.socket = new WebSocket(url);
    this.socket.onmessage = ({ data }) => this.#hear(JSON.parse(data));
    await new Promise((resolve, reject) => {
      this.socket.onopen = resolve;
      this.socket.onerror = () => reject(new Error('the browser does not listen'));
    });
    const { targetId } = await this.#send('Target.createTarget', { url: 'about:blank' });
    ({ sessionId: this.session } = await this.#send('Target.attachToTarget', { targetId, flatten: true }));
    this.on('Network.requestWillBeSent', ({ request }) => this.addresses.push(request.url));
    this.on('Page.frameNavigated', ({ frame }) => this.addresses.push(`${frame.url}${frame.urlFragment ?? ''}`));
    this.on('Page.navigatedWithinDocument', ({ url: at }) => this.addresses.push(at));
    this.on('Runtime.exceptionThrown', ({ exceptionDetails }) => this.errors.push(
      exceptionDetails.exception?.description ?? exceptionDetails.text));
    this.on('Runtime.consoleAPICalled', ({ type, args }) => {
      if (type === 'error' || type === 'assert') this.errors.push(args.map((arg) => arg.value ?? arg.description).join(' '));
    });
    for (const domain of ['Page', 'Runtime', 'Network', 'Log']) await this.call(`${domain}.enable`);
    // The page says itself what its policy refused, also what the console does not show.
    await this.call('Page.addScriptToEvaluateOnNewDocument', {
      source: `globalThis.violations = [];
        document.addEventListener('securitypolicyviolation', (event) => {
          violations.push(event.effectiveDirective + ' ' + event.blockedURI);
        });`,
    });
  }

  #send(method, params = {}, sessionId = undefined) {
    const id = this.#next;
    this.#next += 1;
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject, method });
      this.socket.send(JSON.stringify({ id, method, params, sessionId }));
    });
  }

  #hear(message) {
    if (message.id === undefined) {
      for (const listener of this.#heard.get(message.method) ?? []) listener(message.params);
      return;
    }
    const asked = this.#asked.get(message.id);
    this.#asked.delete(message.id);
    if (message.error) asked.reject(new Error(`${asked.method}: ${message.error.message}`));
    else asked.resolve(message.result);
  }

  on(method, listener) {
    this.#heard.set(method, [...this.#heard.get(method) ?? [], listener]);
  }

  /** A command of the protocol, to the tab. */
  call(method, params) {
    return this.#send(method, params, this.session);
  }

  /** Goes to an address, and waits until what it shows is there. */
  async open(url) {
    this.#violations.push(...await this.eval('globalThis.violations?.splice(0) ?? []'));
    const loaded = new Promise((resolve) => { this.on('Page.loadEventFired', resolve); });
    const { errorText } = await this.call('Page.navigate', { url });
    assert(errorText === undefined, `${url}: ${errorText}`);
    // Within one document there is no load.
    if (!(await this.eval('document.readyState === "complete"'))) await loaded;
  }

  async reload() {
    this.#violations.push(...await this.eval('violations.splice(0)'));
    const loaded = new Promise((resolve) => { this.on('Page.loadEventFired', resolve); });
    await this.call('Page.reload');
    await loaded;
  }

  /** The value of an expression in the page. */
  async eval(expression) {
    const { result, exceptionDetails } = await this.call('Runtime.evaluate', {
      expression, awaitPromise: true, returnByValue: true, userGesture: true,
    });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  /** Waits until an expression is true in the page, looking at each frame, and gives its value. */
  async until(expression, words = expression) {
    // A context goes with its document: whoever waits over a reload waits in the next one.
    const deadlineMs = Date.now() + PATIENCE_MS;
    for (;;) {
      try {
        const found = await this.eval(`new Promise((resolve, reject) => {
          const until = performance.now() + ${Math.max(deadlineMs - Date.now(), 0)};
          const look = async () => {
            let found;
            try { found = (${expression}); } catch (error) { found = null; }
            if (found) return resolve(found === true || typeof found !== 'object' ? found : true);
            if (performance.now() > until) return reject(new Error('in vain'));
            setTimeout(look, 10);
          };
          look();
        })`);
        return found;
      } catch (error) {
        const isCut = /context was destroyed|Cannot find context|navigated or closed/.test(error.message);
        if (isCut && Date.now() < deadlineMs) continue;
        const seen = await this.eval('document.body?.innerText?.slice(0, 3000) ?? ""').catch(() => '');
        throw new Error(`waited in vain for ${words}: ${error.message.slice(0, 200)}\n${seen}\n${this.errors.join('\n')}`);
      }
    }
  }

  /** Waits until the view shows a text; what is on every page does not count. */
  sees(text) {
    return this.until(`document.querySelector('main').innerText.includes(${JSON.stringify(text)})`, `the text ${JSON.stringify(text)}`);
  }

  /** The place of what a selector and, if given, its whole text name, in sight. */
  async placeOf(selector, text) {
    const find = `[...document.querySelectorAll(${JSON.stringify(selector)})].find((one) =>
      one.checkVisibility() && !one.disabled && one.ariaDisabled !== 'true' && ${text === undefined ? 'true' : `one.innerText.trim() === ${JSON.stringify(text)}`})`;
    await this.until(find, `${selector} ${text ?? ''}`);
    return this.eval(`(() => {
      const found = ${find};
      found.scrollIntoView({ block: 'center', behavior: 'instant' });
      const { x, y, width, height } = found.getBoundingClientRect();
      return { x: x + width / 2, y: y + height / 2 };
    })()`);
  }

  /** Presses the mouse, or lets it go, at a place. */
  mouse(type, { x, y }) {
    return this.call('Input.dispatchMouseEvent', { type, x, y, button: 'left', clickCount: 1 });
  }

  /** Clicks, by mouse, what a selector and, if given, its whole text name. */
  async click(selector, text) {
    const place = await this.placeOf(selector, text);
    for (const type of ['mousePressed', 'mouseReleased']) await this.mouse(type, place);
  }

  /** Types into the field of a label, as a person does. */
  async type(label, text) {
    await this.focus(label);
    await this.eval(`document.activeElement.select?.()`);
    await this.call('Input.insertText', { text });
  }

  /** Gives the focus to the field of a label. */
  focus(label) {
    return this.until(`(() => {
      const found = [...document.querySelectorAll('label')].find((one) => one.checkVisibility() &&
        (one.innerText.trim() === ${JSON.stringify(label)} || one.innerText.trim() === ${JSON.stringify(`${label} (required)`)}));
      found?.control?.focus();
      return found !== undefined && document.activeElement === found.control;
    })()`, `a field ${label}`);
  }

  /** Presses a key. */
  async press(key, code = key, modifiers = 0) {
    const text = key === 'Enter' ? '\r' : key.length === 1 ? key : undefined;
    const codes = { Enter: 13, Tab: 9, Escape: 27, ' ': 32, End: 35, Home: 36 };
    const windowsVirtualKeyCode = codes[key] ?? key.toUpperCase().charCodeAt(0);
    await this.call('Input.dispatchKeyEvent', { type: 'keyDown', key, code, modifiers, text, windowsVirtualKeyCode });
    await this.call('Input.dispatchKeyEvent', { type: 'keyUp', key, code, modifiers, windowsVirtualKeyCode });
  }

  /** What the policy of the page refused, and what went wrong in it. */
  async complaints() {
    return [...this.#violations, ...await this.eval('violations'), ...this.errors];
  }

  async close() {
    this.socket?.close();
    this.child.kill('SIGKILL');
    await this.gone;
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 10 });
  }
}

/** The address under which the browser listens, which it writes to standard error. */
function endpoint(child) {
  return new Promise((resolve, reject) => {
    let said = '';
    child.once('error', (error) => reject(new Error(`chromium cannot be started: ${error.message}`)));
    child.once('exit', (code) => reject(new Error(`chromium ended with ${code}: ${said}`)));
    child.stderr.on('data', (data) => {
      said = (said + data).slice(-10_000);
      const found = /DevTools listening on (ws:\/\/\S+)/.exec(said);
      if (found) resolve(found[1]);
    });
  });
}

const input = createInterface({ input: process.stdin });
const lines = input[Symbol.asyncIterator]();

/** Asks the test for something that only it can do, and waits until that is done; gives what it answers. */
export async function ask(what) {
  process.stdout.write(`${what}\n`);
  const { value } = await lines.next();
  return value;
}

/** What axe has to complain about the page as it is. */
export async function inaccessible(browser, axe) {
  await browser.call('Runtime.evaluate', { expression: readFileSync(axe, 'utf8') });
  const { violations, passes } = await browser.eval(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations, passes }) => ({
    violations: violations.map(({ id, nodes }) => [id, nodes.slice(0, 3).map(({ html, failureSummary }) =>
      html.slice(0, 200) + ' ' + failureSummary)]),
    passes: passes.length,
  }))`);
  assert(passes > 5, 'axe looked at nothing');
  return violations;
}

/** Runs a scenario with a browser of its own, which ends with it. */
export async function scenario(run, options) {
  const browser = await Chromium.start(options);
  // A test that is gone leaves no browser behind.
  input.once('close', () => browser.child.kill('SIGKILL'));
  try {
    await run(browser);
    assertEqual(await browser.complaints(), [], 'what the policy refused and what went wrong');
    process.stdout.write('done\n');
  } finally {
    await browser.close();
    process.stdin.destroy();
  }
}
