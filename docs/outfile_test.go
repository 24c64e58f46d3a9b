package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// createsFiles are the names of other packages with which a file is made, or an existing one is emptied, through a link
// that another user may have put there.
var createsFiles = map[string]bool{
	"os.Create": true, "os.WriteFile": true, "os.O_CREATE": true, "os.O_TRUNC": true, "ioutil.WriteFile": true,
	"syscall.O_CREAT": true, "syscall.Creat": true, "unix.O_CREAT": true, "unix.Creat": true, "porcupine.VisualizePath": true,
}

// mayCreateFiles are the packages that see to it that no link is followed.
var mayCreateFiles = []string{"vfs/"}

// creations returns a line for each use of one of createsFiles.
func creations(fset *token.FileSet, name string, f *ast.File) (found []string) {
	ast.Inspect(f, func(node ast.Node) bool {
		sel, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); ok && createsFiles[pkg.Name+"."+sel.Sel.Name] {
			found = append(found, fmt.Sprintf("%s:%d: %s.%s", name, fset.Position(sel.Pos()).Line, pkg.Name, sel.Sel.Name))
		}
		return true
	})
	return found
}

// No command and no package makes files with package os: they use vfs/outfile or vfs, which follow no link of
// another user. os.CreateTemp and os.MkdirTemp are right, since no one can guess their names.
func TestFilesAreMadeByOutfileOrVFS(t *testing.T) {
	var found []string
	for _, f := range goFiles(t) {
		may := slices.ContainsFunc(mayCreateFiles, func(dir string) bool { return strings.HasPrefix(f.name, dir) })
		if !f.isTest() && !may {
			found = append(found, creations(positions, f.name, f.File)...)
		}
	}
	require.Empty(t, found, "use vfs/outfile, or vfs where it cannot be imported")
}

func TestCreationsAreFound(t *testing.T) {
	const source = "package p\nfunc f() { os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0); os.Create(name); os.Open(name) }\n"
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", source, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"p.go:2: os.O_CREATE", "p.go:2: os.Create"}, creations(fset, "p.go", f))
}
