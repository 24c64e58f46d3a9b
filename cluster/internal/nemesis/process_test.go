//go:build unix

package nemesis

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const processGroups = 4

// buildSieved builds the program once.
var buildSieved = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "nemesis-sieved-")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "sieved")
	out, err := exec.Command("go", "build", "-o", program, "../../cmd/sieved").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return program, nil
})

// TestMain removes the program.
func TestMain(m *testing.M) {
	code := m.Run()
	if built {
		program, _ := buildSieved()
		_ = os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(code)
}

var built bool // buildSieved was called

// processes is a cluster of three programs.
type processes struct {
	t     *testing.T
	nodes []*process
}

// process is a node that is a program.
type process struct {
	id, addr string
	command  func() *exec.Cmd
	cmd      *exec.Cmd // nil while it is down
	stdin    io.Closer // its end stops the program if this one dies
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// newProcesses starts three nodes and waits until all groups have three replicas.
func newProcesses(t *testing.T, program, dir string) *processes {
	t.Helper()
	c := &processes{t: t}
	t.Cleanup(c.stop)
	data := t.TempDir()
	for i := range 3 {
		p := &process{id: "p" + strconv.Itoa(i+1), addr: freeAddr(t)}
		args := []string{
			"--id", p.id, "--dir", filepath.Join(data, p.id), "--listen", p.addr, "--groups", strconv.Itoa(processGroups), "--replicas", "3",
			"--heartbeat", heartbeat.String(), "--gossip", "100ms", "--disk-reserve", "1", "--stop-with-parent",
		}
		if i > 0 {
			args = append(args, "--join", c.nodes[0].addr)
		}
		logFile := filepath.Join(dir, p.id+".log")
		p.command = func() *exec.Cmd {
			cmd := exec.Command(program, args...)
			log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			require.NoError(t, err)
			cmd.Stdout, cmd.Stderr = log, log
			return cmd
		}
		require.NoError(t, p.start())
		c.nodes = append(c.nodes, p)
		require.Eventually(t, func() bool { _, err := p.leaders(); return err == nil }, recovery, 20*time.Millisecond, "%s does not answer", p.id)
	}
	require.Eventually(t, func() bool {
		for _, p := range c.nodes {
			if full, err := p.replicated(3); err != nil || !full {
				return false
			}
		}
		return true
	}, recovery, 50*time.Millisecond, "the groups do not have three replicas")
	return c
}

func (p *process) start() (err error) {
	p.cmd = p.command()
	defer func() { _ = p.cmd.Stdout.(*os.File).Close() }()
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	return p.cmd.Start()
}

// end sends a signal that ends the program, and waits for that.
func (p *process) end(s syscall.Signal) {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(s)
	_ = p.cmd.Wait()
	_ = p.stdin.Close()
	p.cmd = nil
}

func (c *processes) stop() {
	for _, p := range c.nodes {
		p.end(syscall.SIGKILL)
	}
}

// dialer implements victim.
func (c *processes) dialer() dialer { return dialTCP }

// addrs implements victim.
func (c *processes) addrs() (all []string) {
	for _, p := range c.nodes {
		all = append(all, p.addr)
	}
	return all
}

// ask sends one request.
func (p *process) ask(args ...string) (reply, error) {
	nc, err := net.DialTimeout("tcp", p.addr, dialTimeout)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = nc.Close() }()
	c := &conn{nc: nc, r: bufio.NewReader(nc)}
	replies, _, err := c.call(time.Now().Add(replyTimeout), args)
	if err != nil {
		return reply{}, err
	}
	if replies[0].err != "" {
		return reply{}, errors.New(replies[0].err)
	}
	return replies[0], nil
}

// leaders returns the node that leads each group, as a node sees it.
func (p *process) leaders() (ids []string, err error) {
	r, err := p.ask("RAFT.GROUPS")
	if err != nil {
		return nil, err
	}
	for _, row := range r.array {
		if len(row.array) != 5 || row.array[3].text == "" {
			return nil, errors.New("a group has no leader")
		}
		ids = append(ids, row.array[3].text)
	}
	return ids, nil
}

// replicated reports whether each group has a number of replicas, as a node sees it, and all vote.
func (p *process) replicated(count int) (bool, error) {
	r, err := p.ask("RAFT.GROUPS")
	if err != nil {
		return false, err
	}
	for _, row := range r.array {
		if len(row.array) != 5 || row.array[3].text == "" || len(row.array[4].array) != count {
			return false, nil
		}
	}
	for group := range processGroups {
		status, err := p.ask("RAFT.STATUS", strconv.Itoa(group))
		if err != nil || strings.Count(status.text, "voter=true") != count {
			return false, err
		}
	}
	return true, nil
}

// leader waits for a node that leads a group.
func (c *processes) leader(group int) *process {
	c.t.Helper()
	var found *process
	require.Eventually(c.t, func() bool {
		for _, p := range c.nodes {
			ids, err := p.leaders()
			for _, q := range c.nodes {
				if err == nil && group < len(ids) && q.id == ids[group] {
					found = q
					return true
				}
			}
		}
		return false
	}, recovery, 10*time.Millisecond, "group %d has no leader", group)
	return found
}

// waitWrites implements victim.
func (c *processes) waitWrites() {
	c.t.Helper()
	for group := range processGroups {
		require.Eventually(c.t, func() bool {
			_, err := c.leader(group).ask("SET", probeKey(group, processGroups), "x")
			return err == nil
		}, recovery, 20*time.Millisecond, "group %d does not take writes", group)
	}
}

func killProcess(c *processes, rnd *rand.Rand) (string, error) {
	p := c.leader(rnd.IntN(processGroups))
	p.end(syscall.SIGKILL)
	time.Sleep(outage(rnd))
	return p.id, p.start()
}

func restartProcess(c *processes, rnd *rand.Rand) (string, error) {
	p := c.leader(rnd.IntN(processGroups))
	p.end(syscall.SIGTERM)
	return p.id, p.start()
}

func killProcesses(c *processes, rnd *rand.Rand) (string, error) {
	for _, i := range rnd.Perm(len(c.nodes)) {
		c.nodes[i].end(syscall.SIGKILL)
	}
	for _, i := range rnd.Perm(len(c.nodes)) {
		if err := c.nodes[i].start(); err != nil {
			return "", err
		}
	}
	return "", nil
}

// pauseLeader stops a leader for longer than an election takes. When it continues, it believes for a
// moment that it still leads, and requests wait in its sockets.
func pauseLeader(c *processes, rnd *rand.Rand) (string, error) {
	p := c.leader(rnd.IntN(processGroups))
	for range 2 {
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return "", err
		}
		time.Sleep(outage(rnd))
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			return "", err
		}
		time.Sleep(heartbeat / 4)
	}
	return p.id, nil
}

// pauseTwo stops two of three nodes, so that a write may wait in one of them, and kills the third.
func pauseTwo(c *processes, rnd *rand.Rand) (string, error) {
	order := rnd.Perm(len(c.nodes))
	for _, i := range order[:2] {
		if err := c.nodes[i].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return "", err
		}
	}
	time.Sleep(outage(rnd))
	killed := c.nodes[order[2]]
	killed.end(syscall.SIGKILL)
	for _, i := range order[:2] {
		if err := c.nodes[i].cmd.Process.Signal(syscall.SIGCONT); err != nil {
			return "", err
		}
	}
	time.Sleep(outage(rnd))
	return fmt.Sprintf("%s was killed", killed.id), killed.start()
}

var processFaults = []fault[*processes]{
	{"a process is killed", killProcess},
	{"a process is restarted", restartProcess},
	{"all processes are killed", killProcesses},
	{"the leader is paused", pauseLeader},
	{"two processes are paused and the third is killed", pauseTwo},
}

func TestProcessesStayLinearizable(t *testing.T) {
	t.Parallel()
	built = true
	program, err := buildSieved()
	require.NoError(t, err)
	dir := artifacts(t)
	mustPass(t, newProcesses(t, program, dir), dir, processFaults)
}
