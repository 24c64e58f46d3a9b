package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/command"
)

// redisVersion is the version of Redis whose replies and errors these are. Clients look at it to know
// what a server can do.
const redisVersion = "7.0.0"

// sections of INFO that the server writes; kv.Cluster.Info writes the others.
var sections = []struct {
	name string
	text func(s *Server) string
}{
	{"server", func(s *Server) string {
		return fmt.Sprintf("# Server\r\nredis_version:%s\r\nredis_mode:cluster\r\nuptime_in_seconds:%d\r\n",
			redisVersion, int(time.Since(s.started).Seconds()))
	}},
	{"clients", func(s *Server) string {
		counts := s.Stats()
		return fmt.Sprintf("# Clients\r\nconnected_clients:%d\r\nmaxclients:%d\r\nunauthenticated_clients:%d\r\n"+
			"client_bytes:%d\r\nmaxmemory_clients:%d\r\n", counts.Clients, s.options.MaxClients, counts.Unauthenticated,
			counts.ClientBytes, s.memory.limit)
	}},
	{"stats", func(s *Server) string {
		counts := s.Stats()
		return fmt.Sprintf("# Stats\r\ntotal_connections_received:%d\r\ntotal_commands_processed:%d\r\n"+
			"rejected_connections:%d\r\nprotocol_errors:%d\r\nevicted_connections:%d\r\ntimed_out_connections:%d\r\n"+
			"acl_access_denied_auth:%d\r\nevicted_clients:%d\r\nclient_memory_waits:%d\r\n", counts.Connections, counts.Commands, counts.Rejected, counts.ProtocolErrors,
			counts.Evicted, counts.TimedOut, counts.WrongPasswords, counts.Shed, counts.MemoryWaits)
	}},
	{"cluster", func(*Server) string { return "# Cluster\r\ncluster_enabled:1\r\n" }},
}

func info(c *conn, r request) {
	wanted := map[string]bool{}
	for _, arg := range r.args[1:] {
		wanted[strings.ToLower(string(arg))] = true
	}
	all := len(wanted) == 0 || wanted["all"] || wanted["everything"] || wanted["default"]
	var texts []string
	for _, s := range sections {
		if all || wanted[s.name] {
			texts = append(texts, s.text(c.server))
		}
		delete(wanted, s.name)
	}
	if all {
		texts = append(texts, c.server.cluster.Info(""))
	} else {
		for name := range wanted {
			texts = append(texts, c.server.cluster.Info(name))
		}
	}
	texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	c.out.Verbatim(strings.Join(texts, "\r\n"))
}

var configArities = map[string]int{"get": -3, "help": 2}

// config evaluates CONFIG. The settings are those that clients and redis-benchmark ask for.
func config(c *conn, r request) {
	name, ok := c.call(r.args).Subcommand("config", configArities)
	if !ok {
		return
	}
	if name == "help" {
		c.call(r.args).Help("CONFIG", "GET <pattern> [<pattern> ...]")
		return
	}
	for _, pattern := range r.args[2:] {
		if text := command.PatternTooLong(pattern); text != "" {
			c.out.Error(text)
			return
		}
	}
	o := c.server.options
	settings := [][2]string{
		{"appendonly", "yes"}, {"cluster-enabled", "yes"}, {"databases", "1"},
		{"maxclients", strconv.Itoa(o.MaxClients)}, {"maxmemory", "0"}, {"maxmemory-policy", "noeviction"},
		{"proto-max-bulk-len", strconv.Itoa(o.MaxRequest)}, {"save", ""},
		{"timeout", strconv.Itoa(int(o.IdleTimeout.Seconds()))},
	}
	settings = slices.DeleteFunc(settings, func(s [2]string) bool {
		return !slices.ContainsFunc(r.args[2:], func(pattern []byte) bool {
			return command.MatchGlob([]byte(strings.ToLower(string(pattern))), []byte(s[0]))
		})
	})
	c.out.Map(len(settings))
	for _, s := range settings {
		c.out.Text(s[0])
		c.out.Text(s[1])
	}
}
