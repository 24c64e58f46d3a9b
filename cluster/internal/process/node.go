// Package process runs nodes of sieved as processes on loopback addresses: for sieved demo and for tests. A process
// ends when this one does, also by a panic: it stops when its standard input ends.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sievedb/sievedb/vfs/outfile"
)

// Node is a node of a cluster. Its directory and address remain when its process ends.
type Node struct {
	ID, Addr, Dir string
	// HTTP is the address of /readyz and /healthz. Without one, the process does not serve them.
	HTTP string
	// Program is sieved, and Args are its further arguments.
	Program string
	Args    []string
	// Log is the file that gets the output.
	Log string

	cmd   *exec.Cmd // nil while the process does not run
	stdin io.Closer // its end stops the process
}

// New returns a node with an address and with a directory and a log in dir.
func New(program, dir, id string, args ...string) (*Node, error) {
	addr, err := FreeAddress()
	dir = filepath.Join(dir, "node-"+id)
	return &Node{ID: id, Addr: addr, Dir: dir, Program: program, Args: args, Log: dir + ".log"}, err
}

// FreeAddress returns an address whose port is free. It is below the ports that systems give to outgoing connections:
// one of those could get the port of a node that is being started again.
func FreeAddress() (string, error) {
	const first, end, tries = 10_000, 32_000, 100
	for try := 1; ; try++ {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(end-first)))
		if err == nil {
			return ln.Addr().String(), ln.Close()
		}
		if try == tries {
			return "", fmt.Errorf("no free port found: %w", err)
		}
	}
}

// Init makes the node's directory, as that of the first node of a new cluster.
func (n *Node) Init(ctx context.Context, args ...string) error {
	args = append([]string{"init", "--id", n.ID, "--dir", n.Dir}, args...)
	if out, err := exec.CommandContext(ctx, n.Program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s init: %w\n%s", n.Program, err, out)
	}
	return nil
}

// Start starts the process. It does not wait until the node answers.
func (n *Node) Start() error {
	log, err := outfile.Append(n.Log, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args := []string{"--id", n.ID, "--dir", n.Dir, "--listen", n.Addr, "--stop-with-parent", "--disk-reserve", "1"}
	if n.HTTP != "" {
		args = append(args, "--metrics", n.HTTP)
	}
	cmd := exec.Command(n.Program, append(args, n.Args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if n.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.cmd = cmd
	return nil
}

// Running reports whether the process was started and not ended by Kill or Stop.
func (n *Node) Running() bool { return n.cmd != nil }

// Pid returns the number of the process.
func (n *Node) Pid() int { return n.cmd.Process.Pid }

// Signal sends a signal to the process.
func (n *Node) Signal(s os.Signal) error { return n.cmd.Process.Signal(s) }

// Kill ends the process as a crash does.
func (n *Node) Kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
	_ = n.stdin.Close()
	n.cmd = nil
}

// Stop ends the process with SIGTERM, and returns an error if it does not end well within a minute.
func (n *Node) Stop() error {
	if err := n.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return n.Wait()
}

// Wait waits until the process ends by itself, for a minute. It returns an error if the process does not end well.
func (n *Node) Wait() error {
	cmd := n.cmd
	late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !late.Stop() {
		err = errors.Join(err, errors.New("the process did not end within a minute"))
	}
	_ = n.stdin.Close()
	n.cmd = nil
	return err
}

// Client returns a client of this node alone. The caller closes it.
func (n *Node) Client() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: n.Addr, MaxRetries: -1, DialTimeout: time.Second, ReadTimeout: 10 * time.Second,
	})
}

// Do sends a command to this node alone.
func (n *Node) Do(ctx context.Context, args ...any) (any, error) {
	c := n.Client()
	defer func() { _ = c.Close() }()
	return c.Do(ctx, args...).Result()
}

// Well returns nil if the node is ready and reports no problem, which is when an operator may restart another one.
func (n *Node) Well(ctx context.Context) error {
	ready, text, err := n.get(ctx, "/readyz")
	if err == nil && (!ready || !strings.HasPrefix(text, "ok:")) {
		err = errors.New(strings.TrimSpace(text))
	}
	return err
}

func (n *Node) get(ctx context.Context, path string) (ok bool, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+path, nil)
	if err != nil {
		return false, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, "", err
	}
	body, err := io.ReadAll(response.Body)
	return response.StatusCode == http.StatusOK, string(body), errors.Join(err, response.Body.Close())
}

// LogText returns what the node has logged.
func (n *Node) LogText() string {
	text, err := os.ReadFile(n.Log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// LastLines returns the end of the log.
func (n *Node) LastLines(count int) string {
	lines := bytes.SplitAfter([]byte(n.LogText()), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-count-1):], nil))
}

// Group is a group as a node knows it: a row of RAFT.GROUPS.
type Group struct {
	Number, First, Last int
	Leader              string // "" if none is known
	Replicas            []string
}

// Groups returns the groups as this node knows them.
func (n *Node) Groups(ctx context.Context) ([]Group, error) {
	reply, err := n.Do(ctx, "RAFT.GROUPS")
	if err != nil {
		return nil, err
	}
	rows, _ := reply.([]any)
	groups := make([]Group, len(rows))
	for i, row := range rows {
		if err := groups[i].parse(row); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// parse reads a row: a line of names with their values.
func (g *Group) parse(row any) error {
	line, _ := row.(string)
	values := map[string]string{}
	for _, field := range strings.Fields(line) {
		name, value, _ := strings.Cut(field, "=")
		values[name] = value
	}
	for name, to := range map[string]*int{"group": &g.Number, "first": &g.First, "last": &g.Last} {
		var err error
		if *to, err = strconv.Atoi(values[name]); err != nil {
			return fmt.Errorf("RAFT.GROUPS has a row of another form: %v", row)
		}
	}
	g.Leader = values["leader"]
	g.Replicas = strings.FieldsFunc(values["voters"], func(r rune) bool { return r == ',' })
	return nil
}
