package server

import (
	"fmt"
	"slices"
	"strings"
	"time"
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
		return fmt.Sprintf("# Clients\r\nconnected_clients:%d\r\nblocked_clients:0\r\nmaxclients:%d\r\nunauthenticated_clients:%d\r\n"+
			"client_bytes:%d\r\nmaxmemory_clients:%d\r\n", counts.Clients, s.live.maxClients.Load(),
			counts.Unauthenticated,
			counts.ClientBytes, s.memory.limit.Load())
	}},
	{"stats", func(s *Server) string {
		counts := s.Stats().since(s.base.Load())
		return fmt.Sprintf("# Stats\r\ntotal_connections_received:%d\r\ntotal_commands_processed:%d\r\n"+
			"rejected_connections:%d\r\nprotocol_errors:%d\r\nevicted_connections:%d\r\ntimed_out_connections:%d\r\n"+
			"acl_access_denied_auth:%d\r\nevicted_clients:%d\r\nclient_memory_waits:%d\r\n", counts.Connections,
			counts.Commands, counts.Rejected, counts.ProtocolErrors,
			counts.Evicted, counts.TimedOut, counts.WrongPasswords, counts.Shed, counts.MemoryWaits)
	}},
	{"commandstats", (*Server).commandStats},
	{"keyspace", (*Server).keyspace},
	{"cluster", func(*Server) string { return "# Cluster\r\ncluster_enabled:1\r\n" }},
}

// keyspace has no database without keys, as in Redis. Exporters refuse its line if it has further fields.
func (s *Server) keyspace() string {
	text, k := "# Keyspace\r\n", s.node.Keyspace(s.ctx)
	if k.Keys > 0 {
		text += fmt.Sprintf("db0:keys=%d,expires=%d,avg_ttl=0\r\n", k.Keys, k.Expiring)
	}
	if k.Estimated {
		text += "keys_estimated:1\r\n"
	}
	return text
}

// since returns the counts since others.
func (s Stats) since(base *Stats) Stats {
	for _, n := range []struct {
		now    *int64
		before int64
	}{
		{&s.Connections, base.Connections}, {&s.Rejected, base.Rejected}, {&s.Evicted, base.Evicted},
		{&s.TimedOut, base.TimedOut}, {&s.WrongPasswords, base.WrongPasswords}, {&s.Commands, base.Commands},
		{&s.ProtocolErrors, base.ProtocolErrors}, {&s.MemoryWaits, base.MemoryWaits}, {&s.Shed, base.Shed},
	} {
		*n.now -= n.before
	}
	return s
}

func (s *Server) commandStats() string {
	var b strings.Builder
	b.WriteString("# Commandstats\r\n")
	for _, name := range s.commands.called() {
		stat := s.commands.byName[name]
		calls, micros := stat.calls(), stat.micros.Load()
		fmt.Fprintf(&b, "cmdstat_%s:calls=%d,usec=%d,usec_per_call=%.2f\r\n", name, calls, micros,
			float64(micros)/float64(max(calls, 1)))
	}
	return b.String()
}

func info(c *conn, r request) {
	wanted := map[string]bool{}
	for _, arg := range r.args[1:] {
		wanted[strings.ToLower(string(arg))] = true
	}
	every := wanted["all"] || wanted["everything"]
	all := len(wanted) == 0 || every || wanted["default"]
	var texts []string
	for _, s := range sections {
		if all && (every || s.name != "commandstats") || wanted[s.name] {
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
