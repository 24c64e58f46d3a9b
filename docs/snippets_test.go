package docs_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// snippet is a piece of Go code that readers copy.
type snippet struct{ where, code string }

// pages returns the Go snippets of every Markdown file, by file.
func pages(t *testing.T) map[string][]string {
	all := map[string][]string{}
	for _, f := range filesThatEnd(t, ".md") {
		for _, m := range goBlock.FindAllStringSubmatch(f.text, -1) {
			all[f.name] = append(all[f.name], m[1])
		}
	}
	return all
}

// A line of an indented block that only Go has: a declaration, or a call that is a statement.
var goLine = regexp.MustCompile(`(?m)^\s*([\w, ]+ := |(\w+\.)*\w+\(.*\)$|func \w+\(|import ")`)

// comments returns the Go snippets in the doc comments of all packages, and of what they declare.
func comments(t *testing.T) (all []snippet) {
	for _, f := range goFiles(t) {
		if f.isTest() || strings.Contains(f.name, "/testdata/") {
			continue
		}
		for _, group := range f.Comments {
			all = append(all, inComment(positions.Position(group.Pos()).String(), group.Text())...)
		}
	}
	return all
}

// inComment returns the Go snippets in a comment. Code that is left out is marked by an ellipsis.
func inComment(where, text string) (all []snippet) {
	for _, block := range new(comment.Parser).Parse(text).Content {
		if code, ok := block.(*comment.Code); ok && goLine.MatchString(code.Text) {
			all = append(all, snippet{where, strings.ReplaceAll(code.Text, "{ … }", "{}")})
		}
	}
	return all
}

// importable has the packages that snippets use without importing them, by their names in the code: those of the
// standard library and of the library, under their own names. A snippet that uses others begins with its imports.
var importable = map[string]string{
	"bytes": "bytes", "context": "context", "errors": "errors", "expvar": "expvar", "fmt": "fmt", "http": "net/http", "log": "log", "os": "os",
	"slog": "log/slog", "time": "time", "binary": "encoding/binary", "json": "encoding/json", "math": "math",
	"sievedb": "github.com/sievedb/sievedb", "db": module + "db", "filter": module + "filter",
	"rangefilter": module + "filter/rangefilter", "standalone": module + "filter/standalone",
	"sstable": module + "sstable", "vfs": module + "vfs", "backup": module + "backup",
	"metrics": module + "metrics", "console": module + "console", "cluster": module + "cluster",
}

// imported returns the packages that snippets use.
func imported(t *testing.T, all []snippet) []string {
	packages := slices.Collect(maps.Values(importable))
	for _, s := range all {
		file, err := parser.ParseFile(token.NewFileSet(), "snippet.go", program(s.code), parser.ImportsOnly)
		require.NoError(t, err, "%s:\n%s", s.where, s.code)
		for _, i := range file.Imports {
			packages = append(packages, strings.Trim(i.Path.Value, `"`))
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// exportData returns an importer that reads the export data of these packages from the build cache.
func exportData(t *testing.T, fset *token.FileSet, packages ...string) types.Importer {
	files := map[string]string{}
	args := append([]string{"-deps", "-export", "-json=ImportPath,Export"}, packages...)
	for _, pkg := range list[struct{ ImportPath, Export string }](t, args...) {
		files[pkg.ImportPath] = pkg.Export
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

var (
	// declarations matches a snippet that begins with a function or a type, with or without a comment.
	declarations = regexp.MustCompile(`\A(//.*\n)*(func|type) `)
	// leadingImports matches the imports at the beginning of a snippet.
	leadingImports = regexp.MustCompile(`\A(?:import (?:\w+ )?"[^"\n]+"\n|import \([^)]*\)\n|\n)*`)
	returns        = regexp.MustCompile(`(?m)^return `)
)

// program returns a Go file for a snippet. Statements are put into a function whose parameters are the
// variables that the pages use without declaring them.
func program(code string) string {
	if strings.HasPrefix(code, "package ") {
		return code
	}
	shown := leadingImports.FindString(code)
	head, code := "package snippet\n"+shown, code[len(shown):]
	for name, path := range importable {
		if regexp.MustCompile(`\b`+name+`\.[A-Z]`).MatchString(code) && !strings.Contains(shown, `/`+name+`"`) {
			head += fmt.Sprintf("import %s %q\n", name, path)
		}
	}
	if declarations.MatchString(code) {
		return head + code
	}
	result := ""
	if returns.MatchString(code) {
		result = "error"
	}
	return head + `import d "github.com/sievedb/sievedb/db"
import c "context"
func _(ctx c.Context, store *d.DB, dir string, key, value []byte) ` + result + " {\n" + code + "\n}\n"
}

// compile returns the first error in a snippet. Unused variables are not errors.
func compile(code string, fset *token.FileSet, from types.Importer) error {
	file, err := parser.ParseFile(fset, "snippet.go", program(code), 0)
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

// The pages were compiled, and the comments were not: that of package backup assigned two results to one variable.
func TestGoSnippetsCompile(t *testing.T) {
	all := comments(t)
	require.Greater(t, len(all), 9)
	for name, codes := range pages(t) {
		for _, code := range codes {
			if strings.Contains(code, "bolt.") {
				continue // the root has no bbolt: package pages compares it with compiled code
			}
			all = append(all, snippet{name, code})
		}
	}
	require.Greater(t, len(all), 40)
	fset := token.NewFileSet()
	from := exportData(t, fset, imported(t, all)...)
	for _, s := range all {
		assert.NoError(t, compile(s.code, fset, from), "%s:\n%s", s.where, s.code)
	}
	require.ErrorContains(t, compile("store.Gett(key)", fset, from), "Gett")
	require.Error(t, compile("var missing = undeclared", fset, from))
	require.Error(t, compile("prom.Register(store)", fset, from), "a package that the snippet should import")
	require.NoError(t, compile("import f \"fmt\"\n\nf.Println(store)", fset, from))
	require.NoError(t, compile("it, err := store.NewIterator(nil)\nif err != nil {}\nreturn it.Err()\n", fset, from))
}

var indentedBlock = regexp.MustCompile(`(?m)(?:^\n|\A)((?:^    .*\n(?:\n    .*\n)*)+)`)

// Code in an indented block is not compiled.
func TestGoOnPagesIsInBlocksOfGo(t *testing.T) {
	for _, f := range filesThatEnd(t, ".md") {
		for _, m := range indentedBlock.FindAllStringSubmatch(f.text, -1) {
			assert.NotRegexp(t, goLine, m[1], "%s: begin Go with ```go", f.name)
		}
	}
	require.Regexp(t, goLine, indentedBlock.FindStringSubmatch("Text:\n\n    a := 1\n\n    b()\n")[1])
	for _, line := range []string{"x.y.Register(sieve.New(store, nil))", "func main() {", "import \"fmt\"", "\ta, err := f(1)"} {
		require.Regexp(t, goLine, line)
	}
	require.NotRegexp(t, goLine, "go run ./cmd/dbbench (in a checkout)\nFORMAT   the format's version\ncd docs && make")
}
