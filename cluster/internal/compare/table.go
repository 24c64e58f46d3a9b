package main

import (
	"cmp"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// median returns the middle of what of returns for the measurements.
func median[T cmp.Ordered](all []figures, of func(figures) T) T {
	values := make([]T, len(all))
	for i, f := range all {
		values[i] = of(f)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func micros(d time.Duration) string {
	if d >= 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.0f µs", float64(d)/1e3)
}

// table returns the results as Markdown.
func (r *results) table(c config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s with %d processors and %s.\n"+
		"Values have %d bytes, and there are %d keys. All servers and clients share one machine and one file system.\n"+
		"Figures are medians of rounds of %g s (rounds: %d). CPU and disk are sums over the servers of a system.\n\n",
		time.Now().Format(time.DateOnly), runtime.NumCPU(), versions(), c.valueLen, c.keys, c.seconds, c.rounds)
	for _, kind := range []kindOfWork{writes, reads} {
		fmt.Fprintf(&b, "| %s | clients | per second | p50 | p99 | CPU/op | disk/op |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n", kind)
		for _, clients := range c.clients {
			for _, system := range r.order {
				all := r.all[system][workload{kind, clients}]
				fmt.Fprintf(&b, "| %s | %d | %.0f | %s | %s | %s | %.0f B |\n", system, clients,
					median(all, func(f figures) float64 { return f.perSecond }),
					micros(median(all, func(f figures) time.Duration { return f.p50 })),
					micros(median(all, func(f figures) time.Duration { return f.p99 })),
					micros(median(all, func(f figures) time.Duration { return f.cpuPerOp })),
					median(all, func(f figures) float64 { return f.bytesWrittenPerOp }))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString(differences)
	return strings.TrimRight(b.String(), "\n")
}

// versions names the programs that are compared.
func versions() string {
	first := func(program string, args ...string) string {
		out, err := exec.Command(program, args...).Output()
		if err != nil {
			return "no " + program
		}
		line, _, _ := strings.Cut(string(out), "\n")
		return strings.TrimSpace(line)
	}
	redis := first("redis-server", "--version")
	if words := strings.Fields(redis); len(words) > 2 {
		redis = "Redis " + strings.TrimPrefix(words[2], "v=")
	}
	return redis + ", " + strings.Replace(first("etcd", "--version"), "etcd Version:", "etcd", 1)
}

const differences = `What differs between the systems:

- Clients and servers share the processors, so a cheaper client leaves more for its servers. The clients of sieved and
  Redis write RESP by hand, with one connection each; those of etcd use its Go client, and share 16 connections.
- All clients talk to leaders. Those of sieved with 4 groups talk to several nodes.
- etcd keeps old revisions of each key until they are compacted. Here they are not.
- etcd is the version that Debian 12 packages, 3.4; newer ones exist.
- Redis keeps all keys in memory, and is not replicated. It syncs once for all commands that it finds in its sockets.
- Redis's log is not rewritten here, but sieved compacts its tables and shortens its logs during the run.
- The machine has one disk, which syncs for three replicas one after another. Three machines would sync at once.
`
