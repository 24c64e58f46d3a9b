package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sievedb/sievedb/internal/disk/outfile"
)

// process is a node of the demonstration: this program, started again.
type process struct {
	id, addr, dir, log string
	join               string
	cmd                *exec.Cmd
	stdin              io.Closer // its end stops the node if this program dies
}

func newProcess(dir, id string) (*process, error) {
	// The port is free now. That it stays free until the node listens is likely, and all that is possible.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer func() { _ = ln.Close() }()
	return &process{
		id: id, addr: ln.Addr().String(),
		dir: filepath.Join(dir, "node-"+id), log: filepath.Join(dir, "node-"+id+".log"),
	}, nil
}

func (p *process) start() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := outfile.Append(p.log, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args := []string{"--id", p.id, "--dir", p.dir, "--listen", p.addr, "--groups", "4", "--stop-with-parent",
		"--heartbeat", "500ms", "--gossip", "200ms", "--disk-reserve", "1"}
	if p.join != "" {
		args = append(args, "--join", p.join)
	}
	p.cmd = exec.Command(program, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	return p.cmd.Start()
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the node as a crash would.
func (p *process) kill() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Kill() // SIGKILL
	_ = p.cmd.Wait()
	_ = p.stdin.Close()
	p.cmd = nil
}

func (p *process) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, DialTimeout: time.Second, ReadTimeout: 2 * time.Second})
}

// waitReady waits until the node answers and knows a leader for each slot.
func (p *process) waitReady(ctx context.Context) error {
	c := p.client()
	defer func() { _ = c.Close() }()
	return retry(ctx, fmt.Sprintf("node %s to be ready", p.id), func() error {
		groups, err := groupsOf(ctx, c)
		for _, g := range groups {
			if g.leader == "" {
				err = errors.Join(err, errors.New("a group has no leader"))
			}
		}
		return err
	})
}

// lastLines returns the end of the node's log.
func (p *process) lastLines(n int) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error() + "\n"
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n-1):], nil))
}

// retry calls f until it returns nil.
func retry(ctx context.Context, what string, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("waited too long for %s: %w", what, err)
		}
	}
}

// groupState is a row of RAFT.GROUPS.
type groupState struct {
	first, last int64 // slots
	leader      string
	replicas    []string
}

func groupsOf(ctx context.Context, c *redis.Client) (groups []groupState, err error) {
	rows, err := c.Do(ctx, "RAFT.GROUPS").Slice()
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		fields, ok := row.([]any)
		if !ok || len(fields) != 5 {
			return nil, fmt.Errorf("RAFT.GROUPS has a row of another form: %v", row)
		}
		g := groupState{leader: fmt.Sprint(fields[3])}
		g.first, _ = fields[1].(int64)
		g.last, _ = fields[2].(int64)
		replicas, _ := fields[4].([]any)
		for _, id := range replicas {
			g.replicas = append(g.replicas, fmt.Sprint(id))
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// leaders counts the groups that each node leads.
func leaders(ctx context.Context, p *process) (map[string]int, error) {
	c := p.client()
	defer func() { _ = c.Close() }()
	groups, err := groupsOf(ctx, c)
	counts := map[string]int{}
	for _, g := range groups {
		counts[g.leader]++
	}
	return counts, err
}

// waitReplicated waits until each group has a number of replicas, and the leaders are spread.
func waitReplicated(ctx context.Context, p *process, replicas int) (map[string]int, error) {
	c := p.client()
	defer func() { _ = c.Close() }()
	var leads map[string]int
	err := retry(ctx, "the replicas", func() error {
		groups, err := groupsOf(ctx, c)
		if err != nil {
			return err
		}
		leads = map[string]int{}
		for i, g := range groups {
			if len(g.replicas) != replicas || g.leader == "" {
				return fmt.Errorf("group %d has the replicas %s and the leader %q", i, strings.Join(g.replicas, ", "), g.leader)
			}
			leads[g.leader]++
		}
		if len(leads) < 3 {
			return fmt.Errorf("the leaders are not spread yet: %v", leads)
		}
		return nil
	})
	return leads, err
}
