package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The limits of shape. Tests may nest one level more, because subtests are function literals.
const (
	maxNesting     = 4
	maxTestNesting = 5
	maxTestLines   = 80
	maxFields      = 25
)

// nesting measures how deep statements nest. A function literal, an if, an else, a loop, a switch and
// a select are one level each. An else if is on the level of its if.
type nesting struct {
	level   int
	deepest *int
}

func (n nesting) deeper() nesting {
	n.level++
	*n.deepest = max(*n.deepest, n.level)
	return n
}

// Visit implements ast.Visitor.
func (n nesting) Visit(node ast.Node) ast.Visitor {
	switch node := node.(type) {
	case *ast.IfStmt:
		if node.Init != nil {
			ast.Walk(n, node.Init)
		}
		ast.Walk(n, node.Cond)
		ast.Walk(n.deeper(), node.Body)
		if _, chained := node.Else.(*ast.IfStmt); chained {
			ast.Walk(n, node.Else)
		} else if node.Else != nil {
			ast.Walk(n.deeper(), node.Else)
		}
		return nil
	case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.FuncLit:
		return n.deeper()
	}
	return n
}

func deepestIn(node ast.Node) (levels int) {
	ast.Walk(nesting{deepest: &levels}, node)
	return levels
}

// violations returns a line for each declaration of a file that exceeds a limit.
func violations(fset *token.FileSet, name string, f *ast.File) (over []string) {
	report := func(node ast.Node, format string, args ...any) {
		over = append(over, fmt.Sprintf("%s:%d: ", name, fset.Position(node.Pos()).Line)+fmt.Sprintf(format, args...))
	}
	isTest, levels := strings.HasSuffix(name, "_test.go"), maxNesting
	if isTest {
		levels = maxTestNesting
	}
	for _, d := range f.Decls {
		what := "a declaration"
		if fn, ok := d.(*ast.FuncDecl); ok {
			what = fn.Name.Name
			lines := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
			if isTest && lines > maxTestLines {
				report(fn, "%s has %d lines; at most %d are allowed in a test", what, lines, maxTestLines)
			}
		}
		if got := deepestIn(d); got > levels {
			report(d, "%s nests %d levels deep; at most %d are allowed", what, got, levels)
		}
	}
	if !isTest {
		ast.Inspect(f, func(node ast.Node) bool {
			if spec, ok := node.(*ast.TypeSpec); ok && !mayBeLong(spec.Name) {
				if got := fieldsOf(spec); got > maxFields {
					report(spec, "%s has %d fields; at most %d are allowed", spec.Name.Name, got, maxFields)
				}
			}
			return true
		})
	}
	return over
}

// fieldsOf returns the number of fields of a struct, including embedded ones.
func fieldsOf(spec *ast.TypeSpec) (fields int) {
	if s, ok := spec.Type.(*ast.StructType); ok {
		for _, f := range s.Fields.List {
			fields += max(1, len(f.Names))
		}
	}
	return fields
}

// mayBeLong reports whether a struct is one of those that list all settings or measurements: Options,
// Metrics and their parts.
func mayBeLong(name *ast.Ident) bool {
	return name.IsExported() && (strings.HasSuffix(name.Name, "Options") || strings.HasSuffix(name.Name, "Metrics"))
}

// Functions nest at most four levels, in tests five. Tests have at most 80 lines, and structs at most
// 25 fields.
func TestCodeKeepsTheLimitsOfShape(t *testing.T) {
	fset := token.NewFileSet()
	files := 0
	var over []string
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		rel, err := filepath.Rel(root, name)
		over = append(over, violations(fset, filepath.ToSlash(rel), f)...)
		return err
	}))
	require.Greater(t, files, 500, "Go files of the repository")
	require.Empty(t, over, "split functions and group fields:\n%s", strings.Join(over, "\n"))
}

// Code that exceeds a limit is reported, and code that just meets it is not.
func TestLimitsOfShapeAreMeasured(t *testing.T) {
	nested := func(levels ...string) string {
		return "func f() { " + strings.Join(levels, " { ") + " { " + strings.Repeat("}", len(levels)+1)
	}
	deep := []string{"if true", "for", "switch", "default: select", "default: _ = func()"}
	ofFields := func(name string, n int) string {
		pairs, single := strings.Repeat("a, b int; ", (n-1)/2), strings.Repeat("c int; ", (n-1)%2)
		return "type " + name + " struct { E; " + pairs + single + "}"
	}
	ofLines := func(n int) string { return "func f() {" + strings.Repeat("\n", n-1) + "}" }
	for _, c := range []struct {
		source     string
		code, test bool // exceeds a limit there
	}{
		{nested(deep[:4]...), false, false},
		{nested(deep...), true, false},
		{nested(append(slices.Clip(deep), "for range 3")...), true, true},
		{"var v = " + strings.Replace(nested(deep...), "f()", "()", 1), true, true}, // one more: the literal
		{"func f() { for { for { for { if a { } else if b { } else { } } } } }", false, false},
		{"func f() { for { for { for { if a { } else if b { if c { } } } } } }", true, false},
		{"func f() { for { for { for { if a { } else { if c { } } } } } }", true, false},
		{"func f() { for { for { for { for { if a := func() {}; b { } } } } } }", true, false},
		{ofFields("T", 25), false, false},
		{ofFields("T", 26), true, false},
		{"func f() { " + ofFields("T", 26) + " }", true, false},
		{ofFields("myOptions", 26), true, false},
		{ofFields("TableMetrics", 26), false, false},
		{ofLines(80), false, false},
		{ofLines(81), false, true},
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "", "package p\n"+c.source, parser.SkipObjectResolution)
		require.NoError(t, err, c.source)
		require.Equal(t, c.code, len(violations(fset, "a.go", f)) > 0, c.source)
		require.Equal(t, c.test, len(violations(fset, "a_test.go", f)) > 0, c.source)
	}
}

// At most one line of Go in a hundred has more than 120 columns, with tabs of four columns.
func TestGoLinesAreShort(t *testing.T) {
	lines, long := 0, 0
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		text, err := os.ReadFile(name)
		for line := range strings.Lines(string(text)) {
			lines++
			if utf8.RuneCountInString(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")) > 120 {
				long++
			}
		}
		return err
	}))
	require.Greater(t, lines, 50_000)
	require.LessOrEqual(t, long*100, lines, "%d of %d lines", long, lines)
}

// A package comment is at most a page. Formats are in docs/format.md, layouts next to their code.
func TestPackageCommentsAreShort(t *testing.T) {
	comments := 0
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err == nil && file.Doc != nil {
			comments++
			require.LessOrEqual(t, strings.Count(file.Doc.Text(), "\n"), 70, name)
		}
		return err
	}))
	require.Greater(t, comments, 40)
}
