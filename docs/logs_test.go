package docs_test

import (
	"go/ast"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// withoutLogs are the file systems that have no CreateLog of their own although they make files in their own way, or
// wrap another file system whose CreateLog they hide, and why.
var withoutLogs = map[string]string{
	"backup.hidden":                      "a restore makes a database whose log is written once",
	"backup.noLinks":                     "it is for backups, which make no logs",
	"backup.unmovable":                   "it notes the files of a restore",
	"cluster/internal/node.flipping":     "it is for reads of tables",
	"cmd/sievedb.countingFS":             "it is for databases that are only read",
	"compat/goleveldb/leveldb.storageFS": "the files are those of a Storage of the caller",
	"db.coldFS":                          "it is for reads of tables",
	"internal/disk/manifest.oddFS":       "it is for looks at one file",
	"db.noLogs":                          "it discards what is written to logs",
	"internal/disk/dbdir.smallDisk":      "it is for a reserve of space, which is no log",
	"internal/test/fixture.plainLogs":    "tests use it to hide CreateLog",
	"internal/test/fixture.Reserved":     "it shows plain logs as if zeros were reserved behind them",
	"internal/test/interop.unchanging":   "it makes no files",
	"internal/test/vfstest.env":          "it makes logs by the file system that it tests",
	"internal/work/changes.changingFS":   "it is for listings of the archive",
	"internal/work/changes.largeFS":      "it is for reads of cursors",
	"internal/work/compact.sharingFS":    "it is for copies of tables",
	"internal/work/compact.tableDropper": "it discards what is written to tables",
	"internal/work/follow.pins":          "a follower makes no files",
	"internal/work/repair.vanishing":     "it is for a store that cannot be opened",
	"vfs.countingFS":                     "it is an example of a wrapper that knows no optional methods",
}

// makers are the file systems to embed that have a CreateLog.
var makers = []string{"vfs.Mem", "wrap.Counting", "wrap.Faulty", "order.FS", "recorder.FS", "pagecache.FS", "fixture.Failing"}

// fileSystem is what the source says about a type that may be a vfs.FS.
type fileSystem struct {
	embeds               string
	creates, logs, syncs bool
}

// hides reports whether a store on that file system makes plain logs, even if those of the file system below are not.
func (f *fileSystem) hides() bool {
	switch {
	case f.logs:
		return false
	case slices.Contains(makers, f.embeds):
		return f.creates // and the logs are not made by its Create
	}
	return f.embeds == "vfs.FS" || f.syncs && f.creates
}

// fileSystems returns the types of the repository that may be a vfs.FS, by directory and name.
func fileSystems(t *testing.T) map[string]*fileSystem {
	found := map[string]*fileSystem{}
	of := func(file goFile, name string) *fileSystem {
		key := path.Dir(file.name) + "." + name
		if found[key] == nil {
			found[key] = &fileSystem{}
		}
		return found[key]
	}
	for _, file := range goFiles(t) {
		ast.Inspect(file.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					noteEmbedded(s, func(name string) { of(file, n.Name.Name).embeds = name })
				}
			case *ast.FuncDecl:
				if n.Recv != nil {
					of(file, typeName(n.Recv.List[0].Type)).note(n.Name.Name)
				}
			}
			return true
		})
	}
	return found
}

// noteEmbedded calls f with the embedded file system of a struct.
func noteEmbedded(s *ast.StructType, f func(name string)) {
	for _, field := range s.Fields.List {
		if name := typeName(field.Type); len(field.Names) == 0 && (name == "vfs.FS" || slices.Contains(makers, name)) {
			f(name)
		}
	}
}

func (f *fileSystem) note(method string) {
	f.creates = f.creates || method == "Create"
	f.logs = f.logs || method == "CreateLog"
	f.syncs = f.syncs || method == "SyncDir"
}

// typeName returns the name of a type, with its package if it is another one.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return typeName(e.X) + "." + e.Sel.Name
	}
	return ""
}

// A wrapper of a file system that hides its CreateLog makes a store slow without a word, and a test of the wrong path.
func TestEveryFileSystemMakesLogsOrSaysWhyNot(t *testing.T) {
	all := fileSystems(t)
	for _, name := range []string{"vfs.Mem", "internal/disk/wrap.Faulty", "internal/disk/dbdir.logFS"} {
		require.NotNil(t, all[name], name)
		require.True(t, all[name].logs, name)
	}
	for name, f := range all {
		if _, excused := withoutLogs[name]; f.hides() != excused {
			t.Errorf("%s hides CreateLog: %v. Forward it, as wrap.Faulty does, or give the reason in the table", name, f.hides())
		}
	}
}
