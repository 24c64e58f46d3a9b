package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openTerminal makes a terminal of 80 columns: what is written to keys is typed there. Reads of keys obey deadlines,
// which they would not after File.Fd.
func openTerminal(t *testing.T) (keys, terminal *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	t.Cleanup(func() { keys.Close() })
	var n int
	control(t, keys, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	control(t, terminal, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	})
	return keys, terminal
}

// control calls f with the descriptor of a file.
func control(t *testing.T, file *os.File, f func(fd int) error) {
	t.Helper()
	conn, err := file.SyscallConn()
	require.NoError(t, err)
	var failed error
	require.NoError(t, conn.Control(func(fd uintptr) { failed = f(int(fd)) }))
	require.NoError(t, failed)
}

// typist types on a terminal and waits for what appears there.
type typist struct {
	t     *testing.T
	keys  *os.File
	shown bytes.Buffer
}

// wait waits until text appears after what was waited for before.
func (p *typist) wait(text string) {
	p.t.Helper()
	var b [4096]byte
	for !strings.Contains(p.shown.String(), text) {
		require.NoError(p.t, p.keys.SetReadDeadline(time.Now().Add(time.Minute)))
		n, err := p.keys.Read(b[:])
		require.NoError(p.t, err, "waiting for %q; there is %q", text, p.shown.String())
		p.shown.Write(b[:n])
	}
	_, rest, _ := strings.Cut(p.shown.String(), text)
	p.shown.Reset()
	p.shown.WriteString(rest)
}

func (p *typist) enter(text string) {
	_, err := p.keys.WriteString(text)
	require.NoError(p.t, err)
}

// The shell on a terminal: Tab completes keys and lists them, Ctrl-R finds earlier lines, Ctrl-C gives up a line, long
// output has a pager, and a question is answered there.
func TestAShellOnATerminal(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "db")
	works(t, "create", dir)
	works(t, "put", dir, "user:1", "Ada", "user:22", "Grace", "other", "x")
	keys, terminal := openTerminal(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "shell", dir, "--write")
	if !strings.Contains(works(t, "shell", "--help"), "--write") {
		cmd.Args = cmd.Args[:3]
	}
	cmd.Env = append(os.Environ(), "SIEVEDB_TEST_TOOL=1", "XDG_STATE_HOME="+home, "TERM=xterm", "PAGER=cat; echo end of the page", "NO_COLOR=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, terminal.Close())
	p := &typist{t: t, keys: keys}
	p.wait("sievedb> ")
	p.enter("get us\t")
	p.wait("user:")
	p.enter("\t\t")
	p.wait("user:1")
	p.wait("user:22")
	p.enter("1\r")
	p.wait("Ada\r\n")
	p.enter("get nothing")
	p.wait("get nothing") // a Ctrl-C before the line is read would be a signal, and the terminal would drop what it holds
	p.enter("\x03")
	p.wait("sievedb> ")
	p.enter("\x12us")
	p.wait("get user:1")
	p.enter("\r")
	p.wait("Ada\r\n")
	p.enter("help\r")
	p.wait("end of the page")
	p.enter("delete-range --prefix user:\r")
	p.wait("This deletes 2 keys")
	p.enter("yes\r")
	p.wait("deleted\r\n")
	p.enter("\x04")
	require.NoError(t, cmd.Wait())
	require.Equal(t, "other\n", works(t, "scan", dir, "--keys-only"))
	history, err := os.ReadFile(filepath.Join(home, "sievedb", "history"))
	require.NoError(t, err)
	require.Equal(t, "get user:1\nhelp\ndelete-range --prefix user:\n", string(history))
}
