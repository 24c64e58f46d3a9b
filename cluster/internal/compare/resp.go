package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tags have one tag for each of 4 groups, by the highest bits of their slots; with one group, they are all in it.
var tags = [4]string{"b", "c", "d", "a"}

func keyName(key int) []byte { return fmt.Appendf(nil, "{%s}:%012d", tags[key%len(tags)], key) }

// respConn is a connection that has one request at a time.
type respConn struct {
	nc  net.Conn
	r   *bufio.Reader
	out []byte
}

func dialResp(addr string) (*respConn, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &respConn{nc: nc, r: bufio.NewReader(nc)}, nil
}

// do sends a request and returns the reply's first line. It skips the string after that if there is one.
func (c *respConn) do(args ...[]byte) (line string, err error) {
	c.out = fmt.Appendf(c.out[:0], "*%d\r\n", len(args))
	for _, a := range args {
		c.out = append(strconv.AppendInt(append(c.out, '$'), int64(len(a)), 10), "\r\n"...)
		c.out = append(append(c.out, a...), "\r\n"...)
	}
	if err := c.nc.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return "", err
	}
	if _, err := c.nc.Write(c.out); err != nil {
		return "", err
	}
	line, err = c.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSpace(line)
	if n, err := strconv.Atoi(strings.TrimPrefix(line, "$")); err == nil && line[0] == '$' && n >= 0 {
		_, err = c.r.Discard(n + 2)
		return line, err
	}
	return line, nil
}

// respSession follows redirections: it remembers the leader of each tag.
type respSession struct {
	first   string
	conns   map[string]*respConn
	leaders [len(tags)]string
}

func newRespSession(addr string) *respSession {
	return &respSession{first: addr, conns: map[string]*respConn{}}
}

func (s *respSession) close() {
	for _, c := range s.conns {
		_ = c.nc.Close()
	}
}

func (s *respSession) to(addr string) (c *respConn, err error) {
	if c = s.conns[addr]; c == nil {
		if c, err = dialResp(addr); err == nil {
			s.conns[addr] = c
		}
	}
	return c, err
}

// request sends a command about a key to the leader of its group, again if there is none for a moment.
func (s *respSession) request(command string, key int, more ...[]byte) (string, error) {
	group, args := key%len(tags), append([][]byte{[]byte(command), keyName(key)}, more...)
	for begin := time.Now(); time.Since(begin) < 5*time.Second; {
		addr := s.leaders[group]
		if addr == "" {
			addr = s.first
		}
		c, err := s.to(addr)
		if err != nil {
			return "", err
		}
		line, err := c.do(args...)
		if err != nil {
			return "", err
		}
		if _, moved, ok := strings.Cut(line, "-MOVED "); ok {
			_, s.leaders[group], _ = strings.Cut(moved, " ")
			continue
		}
		if strings.HasPrefix(line, "-CLUSTERDOWN") {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if strings.HasPrefix(line, "-") {
			return "", errors.New(line)
		}
		return line, nil
	}
	return "", errors.New("no leader was found in 5 s")
}

func (s *respSession) set(key int, value []byte) error {
	_, err := s.request("SET", key, value)
	return err
}

func (s *respSession) get(key int) error {
	line, err := s.request("GET", key)
	if err == nil && line == "$-1" {
		err = errors.New("a key is absent")
	}
	return err
}

// startSieved starts nodes and waits until each group has a replica on all of them.
func startSieved(program, dir string, addrs []string, groups int) (*servers, error) {
	s := &servers{connect: func() (session, error) { return newRespSession(addrs[0]), nil }}
	for i, addr := range addrs {
		id := fmt.Sprintf("n%d", i+1)
		place := []string{"--id", id, "--dir", filepath.Join(dir, id)}
		args := append(slices.Clone(place), "--listen", addr)
		_, err := os.Stat(filepath.Join(dir, id))
		switch {
		case i > 0:
			args = append(args, "--join", addrs[0])
		case errors.Is(err, os.ErrNotExist): // otherwise it has the data of an earlier round
			create := append([]string{"init", "--groups", strconv.Itoa(groups), "--replicas", strconv.Itoa(len(addrs))}, place...)
			if err := run(program, create...); err != nil {
				return s, err
			}
		}
		if err := s.launch(dir, id, program, args...); err != nil {
			return s, err
		}
	}
	return s, waitFor(func() error { return run(program, "health", "--node", strings.Join(addrs, ",")) })
}

func startRedis(dir string, addrs []string) (*servers, error) {
	_, port, _ := net.SplitHostPort(addrs[0])
	s := &servers{connect: func() (session, error) { return newRespSession(addrs[0]), nil }}
	err := s.launch(dir, "redis", "redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0", "--maxclients", "1000")
	if err != nil {
		return s, err
	}
	return s, waitFor(func() error {
		probe := newRespSession(addrs[0])
		defer probe.close()
		_, err := probe.request("GET", 0) // an error while it loads its log
		return err
	})
}
