// Package browsertest controls a headless Chromium or Chrome over its debugging protocol, for tests that
// look at pages. Only tests import it.
package browsertest

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs/outfile"
)

// browserPatience is far longer than a browser needs for one answer on a busy machine.
const browserPatience = 2 * time.Minute

// debugger communicates with a browser over two pipes, in Chrome's debugging protocol: JSON messages,
// each followed by a zero byte. It is not safe for concurrent use.
type debugger struct {
	t       *testing.T
	to      *os.File
	from    chan message // closed when the browser has exited
	log     string       // the file to which the browser logs
	last    int          // number of the last call
	events  []message    // not yet awaited
	onEvent func(*message)
}

type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

// startBrowser runs a browser until the test ends.
func startBrowser(t *testing.T, binary string) *debugger {
	t.Helper()
	dir, err := os.MkdirTemp("", "sievedb-browser-")
	require.NoError(t, err)
	d := &debugger{t: t, from: make(chan message), log: filepath.Join(dir, "log")}
	log, err := outfile.New(d.log, 0o600)
	require.NoError(t, err)
	fromUs, to, err := os.Pipe()
	require.NoError(t, err)
	from, toUs, err := os.Pipe()
	require.NoError(t, err)
	d.to = to
	cmd := exec.Command(binary,
		// The page is trusted, and containers seldom support the sandbox.
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--no-first-run", "--disable-default-apps", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--remote-debugging-pipe", "about:blank")
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{fromUs, toUs} // 3 and 4, where the browser expects them
	require.NoError(t, cmd.Start())
	for _, f := range []*os.File{fromUs, toUs, log} { // the browser has its own descriptors
		require.NoError(t, f.Close())
	}
	go d.receive(from)
	t.Cleanup(func() {
		_ = to.Close() // the browser exits when its pipe ends
		impatient := time.AfterFunc(browserPatience, func() { _ = cmd.Process.Kill(); _ = from.Close() })
		for range d.from {
		}
		_ = cmd.Wait()
		impatient.Stop()
		_ = from.Close()
		_ = os.RemoveAll(dir) // processes that it forked may still write
	})
	return d
}

func (d *debugger) receive(from *os.File) {
	defer close(d.from)
	for in := bufio.NewReader(from); ; {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) == nil {
			d.from <- m
		}
	}
}

// call calls a method of the browser, or of the page of a session, and decodes the result.
func (d *debugger) call(session, method string, params, into any) {
	d.t.Helper()
	d.last++
	text, err := json.Marshal(params)
	require.NoError(d.t, err)
	if params == nil {
		text = []byte("{}")
	}
	text, err = json.Marshal(message{ID: d.last, SessionID: session, Method: method, Params: text})
	require.NoError(d.t, err)
	_, err = d.to.Write(append(text, 0))
	require.NoError(d.t, err)
	answer := d.next(method, func(m *message) bool { return m.ID == d.last })
	require.Empty(d.t, string(answer.Error), method)
	if into != nil {
		require.NoError(d.t, json.Unmarshal(answer.Result, into))
	}
}

// await waits until an event of a session has happened since the last await.
func (d *debugger) await(session, event string) {
	d.t.Helper()
	is := func(m *message) bool { return m.SessionID == session && m.Method == event }
	for _, m := range d.events {
		if is(&m) {
			d.events = nil
			return
		}
	}
	d.next(event, is)
	d.events = nil
}

// next returns the next message for which wanted returns true.
func (d *debugger) next(what string, wanted func(*message) bool) message {
	d.t.Helper()
	patience := time.After(browserPatience)
	for {
		select {
		case m, ok := <-d.from:
			if !ok {
				log, _ := os.ReadFile(d.log)
				require.Fail(d.t, "the browser exited early", "before %s: %s", what, log)
			}
			if m.Method != "" {
				d.events = append(d.events, m)
				if d.onEvent != nil {
					d.onEvent(&m)
				}
			}
			if wanted(&m) {
				return m
			}
		case <-patience:
			require.Fail(d.t, "the browser does not answer", "%s", what)
		}
	}
}
