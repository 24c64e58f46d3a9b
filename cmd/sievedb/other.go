package main

import (
	"runtime"
	"runtime/debug"
	"strings"
)

func (a *app) otherVerbs() []*verb {
	var bench benchFlags
	var shell shellFlags
	return []*verb{
		{use: "shell DIR", group: groupOther, min: 1, max: 1, flags: shell.add, short: "Run verbs on one open database, with history and completion",
			long: "Read verbs, one in each line, and run them on one open database. The verbs need no directory: 'get KEY'; 'help' in the\n" +
				"shell says more. Without a terminal, lines are read from standard input, and the first verb that fails ends the shell.\n" +
				"Lines are kept in sievedb/history in $XDG_STATE_HOME or ~/.local/state.",
			notInShell: "this is one already",
			run:        func(args []string) error { return a.shell(args, &shell) }},
		{use: "bench [PARENT]", group: groupOther, noDir: true, max: 1, flags: bench.add, short: "Measure reads and writes of a new database",
			long: "Measure reads and writes of a new database in a temporary directory, or below the directory PARENT, to measure the disk\n" +
				"that it is on. The database is removed. Workloads: " + workloadNames() + ".\ncmd/dbbench measures more, and compares filters.",
			run: func(args []string) error { return a.bench(args, &bench) }},
		{use: "version", group: groupOther, noDir: true, run: a.version, short: "Print the version of the tool and what it was built with"},
	}
}

// commit is that of a checkout that the go command does not stamp, such as a worktree of git; the linker sets it:
//
//	go build -ldflags "-X main.commit=$(git rev-parse HEAD)"
var commit string

// build says what the tool was built from.
type build struct {
	Version, Revision, Go, System string
	Modified                      bool
}

func buildInfo() build {
	b := build{Version: "unknown", Revision: commit, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// text returns the version with the commit, unless the version names it already or is that of a release.
func (b *build) text() string {
	switch {
	case b.Revision == "" && b.Version == "(devel)":
		return b.Version + ", of an unknown commit"
	case b.Revision == "" || strings.Contains(b.Version, b.Revision[:min(12, len(b.Revision))]):
		return b.Version
	}
	text := b.Version + ", commit " + b.Revision
	if b.Modified {
		text += " with changes"
	}
	return text
}

func (a *app) version([]string) error {
	b := buildInfo()
	return a.out.result(b, func() {
		a.out.pairs("version", b.Version, "go", b.Go, "system", b.System)
		if b.Revision != "" {
			a.out.pairs("revision", b.Revision)
		}
	})
}
