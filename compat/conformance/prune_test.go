package conformance

import (
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goleveldb's tests of a package are in the package, and some use what it does not export. prune removes
// those declarations, so that the others compile with another implementation.

// testedPackage is a package with test files.
type testedPackage struct {
	Dir, ImportPath, Name              string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// prune removes declarations from the test files of a package until they compile, and returns the names of
// the tests that remain. exports has the files of export data by import path.
func prune(t *testing.T, p testedPackage, exports map[string]string) (tests []string) {
	load := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for i, files := range [][]string{p.TestGoFiles, p.XTestGoFiles} {
		if len(files) == 0 {
			continue
		}
		checked := files
		if i == 0 { // in the package itself
			checked = append(slices.Clone(p.GoFiles), files...)
		}
		for pruneOnce(t, p, load, checked) {
		}
		for _, name := range files {
			tests = append(tests, testsIn(t, filepath.Join(p.Dir, name))...)
		}
	}
	return tests
}

// pruneOnce removes the declarations that do not compile, and reports whether there were any.
func pruneOnce(t *testing.T, p testedPackage, load types.Importer, names []string) bool {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, f)
	}
	var wrong []token.Pos
	config := types.Config{Importer: load, Error: func(err error) { wrong = append(wrong, err.(types.Error).Pos) }}
	_, _ = config.Check(p.ImportPath, fset, files, nil) // the errors are in wrong
	changed := false
	for _, f := range files {
		before := len(f.Decls)
		removed := removeDecls(f, wrong)
		if len(f.Decls) == before && !removed {
			continue
		}
		name := fset.Position(f.Package).Filename
		require.True(t, strings.HasSuffix(name, "_test.go"), "%s does not compile", name)
		out, err := os.Create(name)
		require.NoError(t, err)
		require.NoError(t, printer.Fprint(out, fset, f))
		require.NoError(t, out.Close())
		changed = true
	}
	return changed
}

// removeDecls removes the declarations at the given positions, or only the import or specification.
func removeDecls(f *ast.File, wrong []token.Pos) (removed bool) {
	at := func(n ast.Node) bool {
		return slices.ContainsFunc(wrong, func(pos token.Pos) bool { return n.Pos() <= pos && pos < n.End() })
	}
	var kept []ast.Decl
	var gone []ast.Node
	for _, d := range f.Decls {
		if !at(d) {
			kept = append(kept, d)
			continue
		}
		removed = true
		g, ok := d.(*ast.GenDecl)
		if !ok || len(g.Specs) == 1 {
			gone = append(gone, d)
			continue
		}
		g.Specs = slices.DeleteFunc(g.Specs, func(s ast.Spec) bool {
			if at(s) {
				gone = append(gone, s)
				return true
			}
			return false
		})
		if len(g.Specs) > 0 {
			kept = append(kept, g)
		}
	}
	f.Decls = kept
	f.Comments = slices.DeleteFunc(f.Comments, func(c *ast.CommentGroup) bool {
		return slices.ContainsFunc(gone, func(n ast.Node) bool { return n.Pos() <= c.Pos() && c.End() <= n.End() })
	})
	return removed
}

// testsIn returns the names of the tests in a file. A suite of ginkgo is one.
func testsIn(t *testing.T, name string) (tests []string) {
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	require.NoError(t, err)
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
			tests = append(tests, fn.Name.Name)
		}
	}
	return tests
}

// listTested returns the packages of a module that have tests, and the export data of all that they use.
func listTested(t *testing.T, s *side) (packages []testedPackage, exports map[string]string) {
	exports = map[string]string{}
	list := s.command("list", "-export", "-deps", "-test", "-e", "-json=ImportPath,Export,Dir,Name,GoFiles,TestGoFiles,XTestGoFiles,ForTest", "./leveldb/...")
	for decoder := json.NewDecoder(strings.NewReader(string(output(t, list)))); ; {
		var p struct {
			testedPackage
			Export, ForTest string
		}
		err := decoder.Decode(&p)
		if err == io.EOF {
			return packages, exports
		}
		require.NoError(t, err)
		if p.ForTest != "" || p.Export == "" {
			continue
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, goleveldb) && len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			packages = append(packages, p.testedPackage)
		}
	}
}
