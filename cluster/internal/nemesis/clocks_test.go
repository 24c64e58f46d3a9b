package nemesis

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wallClock has the files that use the time of the wall clock as a number, and why. Everything else compares times of
// one process, which do not change when the clock is set, so a jump of the clock matters for expiry only.
var wallClock = map[string]string{
	"internal/node/options.go":    "Timing.Clock: expiry",
	"internal/replica/replica.go": "Options.Clock: expiry",
	"internal/logstore/entry.go":  "raft.Log.AppendedAt, which nobody compares",
	"internal/server/session.go":  "TIME",
	"internal/server/slowlog.go":  "SLOWLOG shows it",
	"internal/server/timing.go":   "LATENCY shows it",
	"internal/server/latency.go":  "LATENCY DOCTOR shows it",
	"metrics.go":                  "a figure that is a time",
}

func TestTheWallClockMattersForExpiryOnly(t *testing.T) {
	const root = "../.."
	used := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "compare" || d.Name() == "testdata") { // a benchmark of its own
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && readsWallClock(call) {
				name, err := filepath.Rel(root, path)
				require.NoError(t, err)
				used[filepath.ToSlash(name)] = true
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	for name := range used {
		require.NotEmpty(t, wallClock[name], "%s uses the wall clock; compare times of time.Now, or say why", name)
	}
	for name := range wallClock {
		require.True(t, used[name], "%s does not use the wall clock any more", name)
	}
}

// readsWallClock reports whether a call is of a method of time.Time that returns its wall clock as a number, or drops
// the other one.
func readsWallClock(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if of, ok := f.X.(*ast.Ident); ok && of.Name == "time" {
		return false // time.Unix makes a time
	}
	switch f.Sel.Name {
	case "Unix", "UnixMilli", "UnixMicro", "UnixNano":
		return true
	}
	return false
}
