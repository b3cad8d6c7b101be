//go:build e2e

package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browser is a headless Chromium driven by the DevTools protocol over a pipe:
// JSON messages ended by a zero byte on its descriptors 3 and 4. That is all
// these tests need, so there is no library and no port.
type browser struct {
	t  *testing.T
	in *os.File

	mu      sync.Mutex // guards below
	last    int
	waiting map[int]chan answer
	tabs    map[string]*tab
	gone    bool
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// answerLimit bounds one command on a busy machine.
const answerLimit = 3 * time.Minute

func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := lookup(t, "chromium")
	fromUs, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, toUs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "banyan-browser-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--user-data-dir="+home, "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, toUs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = fromUs.Close()
	_ = toUs.Close()
	b := &browser{t: t, in: in, waiting: map[int]chan answer{}, tabs: map[string]*tab{}}
	read := make(chan struct{})
	go func() { b.read(out); close(read) }()
	t.Cleanup(func() {
		_ = in.Close() // the browser ends itself when its pipe does
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left
		<-ended
		_ = out.Close()
		<-read
		_ = os.RemoveAll(home)
	})
	return b
}

// read hands every message to whom it is for.
func (b *browser) read(out io.Reader) {
	for lines := bufio.NewReader(out); ; {
		data, err := lines.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.gone = true
			for _, c := range b.waiting {
				close(c)
			}
			return
		}
		var m struct {
			ID      int
			Method  string
			Session string `json:"sessionId"`
			Params  json.RawMessage
			answer
		}
		if json.Unmarshal(bytes.TrimSuffix(data, []byte{0}), &m) != nil {
			continue
		}
		b.mu.Lock()
		if c := b.waiting[m.ID]; c != nil {
			delete(b.waiting, m.ID)
			c <- m.answer
		} else if tab := b.tabs[m.Session]; tab != nil {
			tab.heard(m.Method, m.Params)
		}
		b.mu.Unlock()
	}
}

// call sends one command and waits for its answer.
func (b *browser) call(session, method string, params, into any) {
	b.t.Helper()
	c := make(chan answer, 1)
	b.mu.Lock()
	gone := b.gone
	b.last++
	message := map[string]any{"id": b.last, "method": method, "params": params}
	b.waiting[b.last] = c
	b.mu.Unlock()
	if session != "" {
		message["sessionId"] = session
	}
	if gone {
		b.t.Fatalf("%s: the browser is gone", method)
	}
	if err := b.write(message); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	select {
	case a, ok := <-c:
		if !ok || a.Error != nil {
			b.t.Fatalf("%s: %+v", method, a.Error)
		}
		if into != nil {
			if err := json.Unmarshal(a.Result, into); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(answerLimit):
		b.t.Fatalf("%s: no answer within %v", method, answerLimit)
	}
}

func (b *browser) write(message map[string]any) error {
	data, err := json.Marshal(message)
	if err == nil {
		_, err = b.in.Write(append(data, 0)) // one write each: safe from several goroutines
	}
	return err
}

// tab is one page. What it complains of and what it asks for is kept.
type tab struct {
	*browser
	t       *testing.T // of the tab, where failures are told
	session string

	// key is the password that the tab gives when it is asked; set before it is
	// opened.
	key string

	// Guarded by browser.mu.
	complaints []string // of the console, of scripts, of the content policy
	asked      []string // addresses
	prompted   int      // times it was asked for a key
}

func (b *browser) open(t *testing.T, address string) *tab { return b.openWith(t, address, "") }

// openWith opens a page that may ask for an admin key.
func (b *browser) openWith(t *testing.T, address, key string) *tab {
	t.Helper()
	var target struct {
		ID string `json:"targetId"`
	}
	var own struct { // without what other tabs were told, keys above all
		ID string `json:"browserContextId"`
	}
	b.call("", "Target.createBrowserContext", map[string]any{}, &own)
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": own.ID}, &target)
	var attached struct {
		Session string `json:"sessionId"`
	}
	b.call("", "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached)
	p := &tab{browser: b, t: t, key: key, session: attached.Session}
	b.mu.Lock()
	b.tabs[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Audits"} {
		p.do(domain+".enable", nil, nil)
	}
	if key != "" {
		p.do("Fetch.enable", map[string]any{"handleAuthRequests": true}, nil)
	}
	p.view(1440, 900, "light")
	p.visit(address)
	return p
}

func (p *tab) do(method string, params, into any) {
	p.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	p.call(p.session, method, params, into)
}

// heard keeps what is wrong; browser.mu is held.
func (p *tab) heard(method string, params json.RawMessage) {
	var m struct {
		Type      string
		Entry     struct{ Level, Text, URL string }
		Exception struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
		Args    []struct{ Value any }
		Request struct{ URL string }
		Issue   struct{ Code string }
		Paused  string `json:"requestId"`
	}
	_ = json.Unmarshal(params, &m)
	switch method {
	case "Runtime.exceptionThrown":
		p.complaints = append(p.complaints, m.Exception.Text+" "+m.Exception.Exception.Description)
	case "Runtime.consoleAPICalled":
		if m.Type == "error" || m.Type == "warning" || m.Type == "assert" {
			p.complaints = append(p.complaints, fmt.Sprint(m.Type, m.Args))
		}
	case "Log.entryAdded":
		if m.Entry.Level == "error" || m.Entry.Level == "warning" {
			p.complaints = append(p.complaints, m.Entry.Text+" "+m.Entry.URL)
		}
	case "Audits.issueAdded":
		if m.Issue.Code == "ContentSecurityPolicyIssue" {
			p.complaints = append(p.complaints, string(params))
		}
	case "Fetch.requestPaused":
		p.answer("Fetch.continueRequest", map[string]any{"requestId": m.Paused})
	case "Fetch.authRequired":
		p.prompted++
		p.answer("Fetch.continueWithAuth", map[string]any{"requestId": m.Paused, "authChallengeResponse": map[string]string{
			"response": "ProvideCredentials", "username": "me", "password": p.key,
		}})
	case "Network.requestWillBeSent":
		p.asked = append(p.asked, m.Request.URL)
	}
}

// answer tells the browser how to go on; nobody waits for what it says.
func (p *tab) answer(method string, params map[string]any) {
	p.last++
	_ = p.write(map[string]any{"id": p.last, "method": method, "params": params, "sessionId": p.session})
}

// judge fails on any complaint and on requests that leave origin.
func (p *tab) judge(origin string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.complaints {
		p.t.Errorf("the page complains: %s", c)
	}
	for _, a := range p.asked {
		if !strings.HasPrefix(a, origin+"/") && !strings.HasPrefix(a, "data:") && a != "about:blank" {
			p.t.Errorf("the page asked for %s", a)
		}
	}
	p.complaints = nil
}

// forgive forgets complaints that a test provoked.
func (p *tab) forgive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complaints = nil
}

// view sets size and colours; a narrow one is a phone.
func (p *tab) view(width, height int, scheme string) {
	p.t.Helper()
	p.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 640}, nil)
	p.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"},
	}}, nil)
}

func (p *tab) visit(address string) {
	p.t.Helper()
	p.do("Page.navigate", map[string]any{"url": address}, nil)
	p.until("the page is loaded", `document.readyState === 'complete' && location.href !== 'about:blank'`)
}

// eval runs an expression in the page; its value must be JSON.
func (p *tab) eval(expression string, into any) {
	p.t.Helper()
	var out struct {
		Result    struct{ Value json.RawMessage }
		Exception *struct {
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	p.do("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &out)
	if out.Exception != nil {
		p.t.Fatalf("%.200s: %s", expression, out.Exception.Exception.Description)
	}
	if into != nil {
		if err := json.Unmarshal(out.Result.Value, into); err != nil {
			p.t.Fatalf("%.200s: %v of %s", expression, err, out.Result.Value)
		}
	}
}

func (p *tab) text(expression string) (text string) {
	p.t.Helper()
	p.eval(expression, &text)
	return text
}

// until waits for an expression to be true; it may be evaluated while a page is
// replaced by another.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	var ok bool
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		p.eval(`(() => { try { return !!(`+expression+`) } catch { return false } })()`, &ok)
		if ok {
			return
		}
	}
	p.t.Fatalf("not within %v: %s\n%s", patience, what, p.text(`document.body.innerText`))
}

// keyCodes of the keys that tests press.
var keyCodes = map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}

func (p *tab) press(key string) {
	p.t.Helper()
	event := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": keyCodes[key]}
	if key == "Enter" {
		event["text"] = "\r"
	}
	p.do("Input.dispatchKeyEvent", event, nil)
	event["type"] = "keyUp"
	delete(event, "text")
	p.do("Input.dispatchKeyEvent", event, nil)
}

// shoot writes a picture of the whole page to $CONSOLE_SHOTS, if that is set.
func (p *tab) shoot(name string) {
	p.t.Helper()
	dir := os.Getenv("CONSOLE_SHOTS")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	p.do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
