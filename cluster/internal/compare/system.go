package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// system is what is measured.
type system struct {
	name  string
	ports int
	addrs []string // of so many ports, the same in each round, because clusters remember them
	// start starts the servers with their data in a directory, which may have that of an earlier round, and waits
	// until they serve.
	start func(dir string, addrs []string) (*servers, error)
}

// session is a client. It is used by one goroutine.
type session interface {
	set(key int, value []byte) error
	get(key int) error
	close()
}

// servers are the processes of a system that runs.
type servers struct {
	processes []*exec.Cmd
	connect   func() (session, error)
	done      func() // releases what connect shares; may be nil
}

func (s *servers) stop() error {
	if s.done != nil {
		s.done()
	}
	var err error
	for _, p := range s.processes {
		err = errors.Join(err, p.Process.Signal(syscall.SIGTERM))
	}
	for _, p := range s.processes {
		timer := time.AfterFunc(20*time.Second, func() { _ = p.Process.Kill() })
		_ = p.Wait() // some end with a status that says by which signal
		timer.Stop()
	}
	return err
}

// launch starts a server whose output goes to a file next to its data.
func (s *servers) launch(dir, name, program string, args ...string) error {
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.processes = append(s.processes, cmd)
	return nil
}

// used is what the processes of a system have used so far.
type used struct {
	cpu     time.Duration
	written uint64 // bytes that went to the disk
}

// clockTick is the unit of /proc/PID/stat on Linux (USER_HZ).
const clockTick = 10 * time.Millisecond

func (s *servers) used() (u used, err error) {
	for _, p := range s.processes {
		proc := filepath.Join("/proc", strconv.Itoa(p.Process.Pid))
		stat, err := os.ReadFile(filepath.Join(proc, "stat"))
		if err != nil {
			return u, err
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 13 {
			return u, fmt.Errorf("%s/stat has %d fields after the name, at least 13 are expected", proc, len(fields))
		}
		for _, f := range fields[11:13] { // user and system time
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return u, err
			}
			u.cpu += time.Duration(n) * clockTick
		}
		io, err := os.ReadFile(filepath.Join(proc, "io"))
		if err != nil {
			return u, err
		}
		_, after, _ := strings.Cut(string(io), "\nwrite_bytes: ")
		line, _, _ := strings.Cut(after, "\n")
		n, err := strconv.ParseUint(line, 10, 64)
		if err != nil {
			return u, err
		}
		u.written += n
	}
	return u, nil
}

// freeAddrs returns addresses on which nothing listens.
func freeAddrs(count int) (addrs []string, err error) {
	for range count {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close()
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs, nil
}

// waitFor calls f until it succeeds.
func waitFor(f func() error) (err error) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = f(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the servers are not ready after a minute: %w", err)
}

// systems returns those whose programs are installed.
func systems(sieved string) ([]system, error) {
	onSieved := func(groups int) func(string, []string) (*servers, error) {
		return func(dir string, addrs []string) (*servers, error) { return startSieved(sieved, dir, addrs, groups) }
	}
	all := []system{
		{name: "sieved, 3 nodes, 1 group", ports: 3, start: onSieved(1)},
		{name: "sieved, 3 nodes, 4 groups", ports: 3, start: onSieved(4)},
		{name: "etcd, 3 nodes", ports: 6, start: startEtcd},
		{name: "sieved, 1 node", ports: 1, start: onSieved(1)},
		{name: "redis-server, 1 node", ports: 1, start: startRedis},
	}
	var installed []system
	for _, s := range all {
		program, _, _ := strings.Cut(s.name, ",")
		if program != "sieved" {
			if _, err := exec.LookPath(program); err != nil {
				fmt.Printf("%s is left out: %v\n", s.name, err)
				continue
			}
		}
		var err error
		if s.addrs, err = freeAddrs(s.ports); err != nil {
			return nil, err
		}
		installed = append(installed, s)
	}
	return installed, nil
}
