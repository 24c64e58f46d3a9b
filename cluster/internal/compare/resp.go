package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slots is the number of slots of Redis Cluster.
const slots = 16384

// slotOf is CRC-16/XMODEM of the key, modulo the slots. The keys have no tags.
func slotOf(key []byte) int {
	crc := uint16(0)
	for _, b := range key {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc % slots)
}

func keyName(key int) []byte { return fmt.Appendf(nil, "key:%012d", key) }

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

// do sends a request and returns the reply's first line, and its string if it is one.
func (c *respConn) do(args ...[]byte) (line string, text []byte, err error) {
	c.out = fmt.Appendf(c.out[:0], "*%d\r\n", len(args))
	for _, a := range args {
		c.out = append(strconv.AppendInt(append(c.out, '$'), int64(len(a)), 10), "\r\n"...)
		c.out = append(append(c.out, a...), "\r\n"...)
	}
	if err := c.nc.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return "", nil, err
	}
	if _, err := c.nc.Write(c.out); err != nil {
		return "", nil, err
	}
	line, err = c.r.ReadString('\n')
	if err != nil {
		return "", nil, err
	}
	line = strings.TrimSpace(line)
	if n, err := strconv.Atoi(strings.TrimPrefix(line, "$")); err == nil && line[0] == '$' && n >= 0 {
		text = make([]byte, n+2)
		_, err = io.ReadFull(c.r, text)
		return line, text, err
	}
	return line, nil, nil
}

// respSession follows redirections: it remembers the leader of each group.
type respSession struct {
	first   string
	groups  int
	conns   map[string]*respConn
	leaders []string
}

func newRespSession(addr string, groups int) *respSession {
	return &respSession{first: addr, groups: groups, conns: map[string]*respConn{}, leaders: make([]string, groups)}
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

// request sends a request to the leader of its key's group, again if there is none for a moment.
func (s *respSession) request(args ...[]byte) (string, error) {
	group := slotOf(args[1]) * s.groups / slots
	for begin := time.Now(); time.Since(begin) < 5*time.Second; {
		addr := s.leaders[group]
		if addr == "" {
			addr = s.first
		}
		c, err := s.to(addr)
		if err != nil {
			return "", err
		}
		line, _, err := c.do(args...)
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
	_, err := s.request([]byte("SET"), keyName(key), value)
	return err
}

func (s *respSession) get(key int) error {
	line, err := s.request([]byte("GET"), keyName(key))
	if err == nil && line == "$-1" {
		err = errors.New("a key is absent")
	}
	return err
}

// startSieved starts nodes and waits until each group has a replica on all of them.
func startSieved(program, dir string, nodes, groups int) (*servers, error) {
	addrs, err := fixedAddrs(dir, nodes)
	if err != nil {
		return nil, err
	}
	s := &servers{connect: func() (session, error) { return newRespSession(addrs[0], groups), nil }}
	for i, addr := range addrs {
		id := fmt.Sprintf("n%d", i+1)
		place := []string{"--id", id, "--dir", filepath.Join(dir, id)}
		args := append(slices.Clone(place), "--listen", addr)
		_, err := os.Stat(filepath.Join(dir, id))
		switch {
		case i > 0:
			args = append(args, "--join", addrs[0])
		case errors.Is(err, os.ErrNotExist): // otherwise it has the data of an earlier round
			create := append([]string{"init", "--groups", strconv.Itoa(groups), "--replicas", strconv.Itoa(nodes)}, place...)
			if out, err := exec.Command(program, create...).CombinedOutput(); err != nil {
				return s, fmt.Errorf("%s init: %w\n%s", program, err, out)
			}
		}
		if err := s.launch(dir, id, program, args...); err != nil {
			return s, err
		}
		if err := waitFor(func() error { return ping(addr) }); err != nil {
			return s, err
		}
	}
	return s, waitFor(func() error { return replicated(addrs[0], nodes) })
}

func ping(addr string) error {
	c, err := dialResp(addr)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	line, _, err := c.do([]byte("PING"))
	if err == nil && line != "+PONG" {
		err = errors.New(line)
	}
	return err
}

// replicated asks sieved for its groups: each has a line of names with their values, such as leader and voters.
func replicated(addr string, nodes int) error {
	c, err := dialResp(addr)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	line, _, err := c.do([]byte("RAFT.GROUPS"))
	if err != nil || line == "" || line[0] != '*' {
		return fmt.Errorf("RAFT.GROUPS: %s: %w", line, errors.Join(err, errors.New("no list")))
	}
	rows, _ := strconv.Atoi(line[1:])
	for range 2 * rows { // the length of each line, and the line
		text, err := c.r.ReadString('\n')
		if err != nil {
			return err
		}
		_, voters, isRow := strings.Cut(strings.TrimSpace(text), "voters=")
		if isRow && (strings.Contains(text, "leader= ") || strings.Count(voters, ",")+1 != nodes) {
			return errors.New("a group has no leader, or too few replicas")
		}
	}
	return nil
}

func startRedis(dir string) (*servers, error) {
	addrs, err := fixedAddrs(dir, 1)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	s := &servers{connect: func() (session, error) { return newRespSession(addrs[0], 1), nil }}
	err = s.launch(dir, "redis", "redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0", "--maxclients", "1000")
	if err != nil {
		return s, err
	}
	return s, waitFor(func() error { return ping(addrs[0]) })
}
