package server

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/command"
)

// live are the settings that CONFIG SET changes. They last until the process ends.
type live struct {
	idleTimeout      atomic.Int64 // nanoseconds; 0: none
	slowerThan       atomic.Int64 // microseconds from which on a command is in the slow log; negative: none is
	slowMost         atomic.Int64
	latencyThreshold atomic.Int64 // milliseconds; 0: none
	maxClients       atomic.Int64
}

// The defaults of Redis.
const (
	defaultSlowerThan = 10_000
	defaultSlowMost   = 128
	mostSlow          = 10_000 // entries, of 4 KiB at most
)

func (l *live) init(o *Options) {
	l.idleTimeout.Store(int64(o.IdleTimeout))
	l.slowerThan.Store(defaultSlowerThan)
	l.slowMost.Store(defaultSlowMost)
	l.maxClients.Store(int64(o.MaxClients))
}

// setting is one of CONFIG GET. If set is nil, it cannot change while the node runs.
type setting struct {
	name         string
	least, most  int64
	get          func(s *Server) string
	set          func(s *Server, n int64)
	mostOfServer func(s *Server) int64 // instead of most
}

func fixed(name, value string) setting {
	return setting{name: name, get: func(*Server) string { return value }}
}

func number(n func(s *Server) int64) func(s *Server) string {
	return func(s *Server) string { return strconv.FormatInt(n(s), 10) }
}

var settings = []setting{
	fixed("appendonly", "yes"), fixed("cluster-enabled", "yes"), fixed("databases", "1"),
	{name: "latency-monitor-threshold", most: math.MaxInt32,
		get: number(func(s *Server) int64 { return s.live.latencyThreshold.Load() }),
		set: func(s *Server, n int64) { s.live.latencyThreshold.Store(n) }},
	{name: "maxclients", least: 1, mostOfServer: func(s *Server) int64 { return int64(s.options.MaxClients) },
		get: number(func(s *Server) int64 { return s.live.maxClients.Load() }),
		set: func(s *Server, n int64) { s.live.maxClients.Store(n) }},
	fixed("maxmemory", "0"),
	{name: "maxmemory-clients", least: 1 << 20, most: 1 << 50,
		get: number(func(s *Server) int64 { return s.memory.limit.Load() }),
		set: func(s *Server, n int64) { s.memory.limit.Store(n) }},
	fixed("maxmemory-policy", "noeviction"),
	{name: "proto-max-bulk-len", get: number(func(s *Server) int64 { return int64(s.options.MaxRequest) })},
	fixed("save", ""),
	{name: "slowlog-log-slower-than", least: -1, most: math.MaxInt64,
		get: number(func(s *Server) int64 { return s.live.slowerThan.Load() }),
		set: func(s *Server, n int64) { s.live.slowerThan.Store(n) }},
	{name: "slowlog-max-len", most: mostSlow,
		get: number(func(s *Server) int64 { return s.live.slowMost.Load() }),
		set: func(s *Server, n int64) { s.live.slowMost.Store(n); s.slow.setMost(int(n)) }},
	{name: "timeout", most: math.MaxInt32,
		get: number(func(s *Server) int64 { return s.live.idleTimeout.Load() / int64(time.Second) }),
		set: func(s *Server, n int64) { s.live.idleTimeout.Store(n * int64(time.Second)); s.wake() }},
}

var configCommands = container{Name: "config", Subcommands: []subcommand{
	sub("get", -3, "GET <pattern> [<pattern> ...]", func(c *conn, r request) { c.getSettings(r.args[2:]) }),
	sub("set", -4, "SET <setting> <value> [<setting> <value> ...]", func(c *conn, r request) { c.setSettings(r.args[2:]) }),
	sub("resetstat", 2, "RESETSTAT", func(c *conn, _ request) {
		c.server.resetStats()
		c.out.OK()
	}),
}}

func (c *conn) getSettings(patterns [][]byte) {
	for _, pattern := range patterns {
		if text := command.PatternTooLong(pattern); text != "" {
			c.out.Error(text)
			return
		}
	}
	var list []setting
	for _, s := range settings {
		if slices.ContainsFunc(patterns, func(pattern []byte) bool {
			return command.MatchGlob([]byte(strings.ToLower(string(pattern))), []byte(s.name))
		}) {
			list = append(list, s)
		}
	}
	c.out.Map(len(list))
	for _, s := range list {
		c.out.Text(s.name)
		c.out.Text(s.get(c.server))
	}
}

// setSettings changes all settings, or none if one of them is wrong.
func (c *conn) setSettings(pairs [][]byte) {
	if len(pairs)%2 != 0 {
		c.out.Error("ERR syntax error")
		return
	}
	var todo []func()
	var seen []string
	for i := 0; i < len(pairs); i += 2 {
		name := strings.ToLower(string(pairs[i][:min(len(pairs[i]), 128)]))
		at := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
		if at < 0 {
			c.out.Errorf("ERR Unknown option or number of arguments for CONFIG SET - '%s'", name)
			return
		}
		n, why := settings[at].parse(c.server, pairs[i+1])
		if slices.Contains(seen, name) {
			why = "duplicate parameter"
		}
		if why != "" {
			c.out.Errorf("ERR CONFIG SET failed (possibly related to argument '%s') - %s", name, why)
			return
		}
		seen = append(seen, name)
		todo = append(todo, func() { settings[at].set(c.server, n) })
	}
	for _, do := range todo {
		do()
	}
	c.out.OK()
}

// parse returns the value of a setting, or why it cannot be set to that.
func (s *setting) parse(server *Server, value []byte) (n int64, why string) {
	if s.set == nil {
		return 0, "can't set immutable config"
	}
	n, ok := command.ParseInt(value)
	if !ok {
		return 0, "argument couldn't be parsed into an integer"
	}
	most := s.most
	if s.mostOfServer != nil {
		most = s.mostOfServer(server)
	}
	if n < s.least || n > most {
		return 0, fmt.Sprintf("argument must be between %d and %d inclusive", s.least, most)
	}
	return n, ""
}
