package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// snippets returns the Go snippets of every Markdown file, by file.
func snippets(t *testing.T) map[string][]string {
	all := map[string][]string{}
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".md") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range goBlock.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\r\n", "\n"), -1) {
			all[filepath.ToSlash(name)] = append(all[filepath.ToSlash(name)], m[1])
		}
		return err
	}))
	return all
}

// importable has the packages that snippets use, by their names in the code.
var importable = map[string]string{
	"bytes": "bytes", "context": "context", "errors": "errors", "expvar": "expvar", "fmt": "fmt", "http": "net/http", "log": "log", "os": "os",
	"slog": "log/slog", "time": "time", "binary": "encoding/binary", "json": "encoding/json", "math": "math",
	"sievedb": "github.com/sievedb/sievedb", "db": module + "db", "filter": module + "filter",
	"rangefilter": module + "filter/rangefilter", "standalone": module + "filter/standalone",
	"sstable": module + "sstable", "vfs": module + "vfs", "backup": module + "backup",
	"metrics": module + "metrics", "console": module + "console",
}

// exportData returns an importer that reads the export data of these packages from the build cache.
func exportData(t *testing.T, fset *token.FileSet) types.Importer {
	args := []string{"list", "-deps", "-export", "-json=ImportPath,Export"}
	list := exec.Command("go", append(args, slices.Sorted(maps.Values(importable))...)...)
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	files := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg struct{ ImportPath, Export string }
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		files[pkg.ImportPath] = pkg.Export
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

// declarations matches a snippet that begins with a function or a type, with or without a comment.
var declarations = regexp.MustCompile(`\A(//.*\n)*(func|type) `)

// program returns a Go file for a snippet. Statements are put into a function whose parameters are the
// variables that the pages use without declaring them.
func program(snippet string) string {
	if strings.HasPrefix(snippet, "package ") {
		return snippet
	}
	var imports strings.Builder
	for name, path := range importable {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(snippet) {
			fmt.Fprintf(&imports, "import %s %q\n", name, path)
		}
	}
	head := "package snippet\n" + imports.String()
	if declarations.MatchString(snippet) {
		return head + snippet
	}
	if !strings.Contains(head, "/sievedb/db") {
		head += "import db \"github.com/sievedb/sievedb/db\"\n"
	}
	return head + "func _(store *db.DB, dir string, key, value []byte) {\n" + snippet + "\n}\n"
}

// compile returns the first error in a snippet. Unused variables are not errors.
func compile(snippet string, fset *token.FileSet, from types.Importer) error {
	file, err := parser.ParseFile(fset, "snippet.go", program(snippet), 0)
	if err != nil {
		return err
	}
	var first error
	config := types.Config{Importer: from, Error: func(err error) {
		var e types.Error
		if first == nil && !(errors.As(err, &e) && e.Soft) {
			first = err
		}
	}}
	_, _ = config.Check("snippet", fset, []*ast.File{file}, nil)
	return first
}

func TestGoSnippetsCompile(t *testing.T) {
	fset := token.NewFileSet()
	from := exportData(t, fset)
	checked := 0
	for name, all := range snippets(t) {
		for _, s := range all {
			if strings.Contains(s, "bolt.") {
				continue // the root has no bbolt: TestCookbookSnippetsAreInExamples compares it with compiled code
			}
			require.NoError(t, compile(s, fset, from), "%s:\n%s", name, s)
			checked++
		}
	}
	require.Greater(t, checked, 9)
	require.ErrorContains(t, compile("store.Gett(key)", fset, from), "Gett")
	require.Error(t, compile("var missing = undeclared", fset, from))
}

// Every snippet of the tour is part of an example.
func TestTourSnippetsAreInExamples(t *testing.T) {
	examples := read(t, "db/example_tour_test.go")
	tour := snippets(t)[path.Join(root, "docs/getting-started.md")]
	require.Greater(t, len(tour), 7)
	for _, s := range tour {
		indented := "\t" + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n\t")
		require.Contains(t, examples, strings.ReplaceAll(indented, "\n\t\n", "\n\n"))
	}
}
