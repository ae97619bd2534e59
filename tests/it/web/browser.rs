//! Headless Chromium, controlled with the DevTools protocol over two pipes: no port, no library.
//!
//! In: a URL, expressions to evaluate. Out: their values, errors of the console, screenshots.
//! The protocol: https://chromedevtools.github.io/devtools-protocol/

use crate::deadline::until;
use crate::root::privilege::skip;
use crate::served::Folder;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Moves the pipes of a shell to the descriptors of the protocol, 3 and 4.
const START: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";

/// A browser with one page, which ends with the test.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    next: u64,
    /// Errors of the console, and exceptions.
    pub errors: Vec<String>,
    _folder: Folder,
}

impl Browser {
    /// Opens a page; `None` if Chromium is not installed.
    pub fn open(test: &str, address: &str) -> Option<Self> {
        let program = ["chromium", "chromium-browser"].into_iter().find(|name| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| folder.join(name).exists())
        });
        let Some(program) = program else {
            skip(test, "needs chromium: apt-get install chromium");
            return None;
        };
        let folder = Folder::new();
        let mut command = Command::new("sh");
        command.args(["-c", START, program, "--headless=new", "--remote-debugging-pipe"]);
        // The sandbox does not work as root; the page is trusted.
        command.args([
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ]);
        command.arg(format!("--user-data-dir={}", folder.join("browser").display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (from, session) = (BufReader::new(from), String::new());
        let (next, errors) = (0, Vec::new());
        let mut browser = Self { child, to, from, session, next, errors, _folder: folder };
        browser.attach(address);
        Some(browser)
    }

    fn attach(&mut self, address: &str) {
        let target = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let named = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", named);
        self.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Runtime", "Log", "Page"] {
            let _ = self.call(&format!("{domain}.enable"), json!({}));
        }
        self.size(1280, 800);
        let _ = self.call("Page.navigate", json!({"url": address}));
    }

    /// Sets the size of the page.
    pub fn size(&mut self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let _ = self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Sets the theme of the system.
    pub fn theme(&mut self, name: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": name}]});
        let _ = self.call("Emulation.setEmulatedMedia", features);
    }

    /// Evaluates an expression.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        until(|| (self.value(expression) == true).then_some(()));
    }

    /// Presses a key, by its name in `KeyboardEvent.key`.
    pub fn key(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({"type": kind, "key": key, "text": text});
            let _ = self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Saves a screenshot, if the variable `MONITOR_PICTURES` names a folder.
    pub fn picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("MONITOR_PICTURES") else { return };
        let screenshot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let text = screenshot["data"].as_str().unwrap();
        let mut decode = Command::new("base64");
        decode.arg("-d").stdin(Stdio::piped());
        let file = std::path::Path::new(&folder).join(format!("{name}.png"));
        let mut child = decode.stdout(std::fs::File::create(file).unwrap()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait().unwrap();
    }

    /// Calls a method and waits for the answer. Errors of the console are collected meanwhile.
    #[track_caller]
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut call = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() && !method.starts_with("Target.") {
            call["sessionId"] = json!(self.session);
        }
        let mut bytes = call.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let mut message = Vec::new();
            let length = self.from.read_until(0, &mut message).unwrap();
            assert!(length > 0, "the browser ended at {method}");
            message.pop();
            let mut message: Value = serde_json::from_slice(&message).unwrap();
            if message["id"] == self.next {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.collect_error(&message);
        }
    }

    fn collect_error(&mut self, event: &Value) {
        let params = &event["params"];
        let error = match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
            "Runtime.consoleAPICalled" if params["type"] == "error" => Some(params.to_string()),
            "Log.entryAdded" if params["entry"]["level"] == "error" => Some(params.to_string()),
            _ => None,
        };
        self.errors.extend(error);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
