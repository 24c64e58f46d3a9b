package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The limits of shape. Tests may nest one level more, because subtests are function literals.
const (
	maxNesting        = 4
	maxTestNesting    = 5
	maxTestLines      = 80
	maxFields         = 25
	maxComplexity     = 20
	maxTestComplexity = 30
)

// exemption is a limit of one place, which is what it has now: a test fails when it needs less, so it only goes down.
type exemption struct {
	limit  int
	reason string
}

// branching are the functions that may have more branches, each with its file; methods with the type.
var branching = map[string]exemption{
	"internal/read/scan/find.go Cursor.findBackward":      {25, "each step of an iterator runs it, and a call for a part of it would cost more than the part"},
	"internal/test/metamorphic/history.go generator.step": {32, "a list of what may happen next and how often, a line or two each"},
	"internal/test/metamorphic/subject.go subject.do":     {37, "a line for each kind of operation"},
	"internal/work/repair/plan.go Repairer.planTables":    {29, "the rules in the order in which they apply, a line or two each"},
	"sstable/block_get.go Block.getInInterval":            {21, "each lookup runs it, and a call for a part of it would cost more than the part"},
}

// wide are the structs that may have more fields, each with its file.
var wide = map[string]exemption{
	"cmd/dbbench/config.go config":      {30, "the flags of the command; storeConfig and outputFiles are their groups"},
	"cmd/peerbench/result.go result":    {28, "a line of JSON, whose fields have one level"},
	"internal/read/scan/parts.go parts": {26, "an iterator is one allocation, which is used again as a whole"},
	"sstable/reader.go Reader":          {31, "a table is one allocation; layout and lifetime are named parts"},
}

// exceeds returns what is wrong with a figure of a place: it exceeds the limit or its own exemption, or needs less than
// that. It notes the exemptions that it has used.
func exceeds(place string, got, limit int, exempt map[string]exemption, used map[string]bool) string {
	e, exempted := exempt[place]
	if exempted {
		used[place] = true
	}
	switch {
	case !exempted && got > limit:
		return fmt.Sprintf("at most %d are allowed", limit)
	case exempted && got > e.limit:
		return fmt.Sprintf("at most %d are allowed here", e.limit)
	case exempted && got <= limit:
		return "it needs no exemption any more"
	case exempted && got < e.limit:
		return fmt.Sprintf("lower its exemption from %d to that", e.limit)
	}
	return ""
}

// complexity returns the cyclomatic complexity of a function as gocyclo counts it: one, and one more for each if, loop,
// case that is not the default, && and ||. Function literals count for the function that they are in.
func complexity(node ast.Node) int {
	n := 1
	ast.Inspect(node, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

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

// qualified returns the name of a function, or the type and the name of a method.
func qualified(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	of := fn.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	return fmt.Sprint(of) + "." + fn.Name.Name
}

// violations returns a line for each declaration of a file that exceeds a limit.
func violations(fset *token.FileSet, name string, f *ast.File, structs declared, used map[string]bool) (over []string) {
	report := func(node ast.Node, format string, args ...any) {
		over = append(over, fmt.Sprintf("%s:%d: ", name, fset.Position(node.Pos()).Line)+fmt.Sprintf(format, args...))
	}
	isTest, levels, branches := strings.HasSuffix(name, "_test.go"), maxNesting, maxComplexity
	if isTest {
		levels, branches = maxTestNesting, maxTestComplexity
	}
	for _, d := range f.Decls {
		what := "a declaration"
		if fn, ok := d.(*ast.FuncDecl); ok {
			what = qualified(fn)
			lines := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
			if isTest && lines > maxTestLines {
				report(fn, "%s has %d lines; at most %d are allowed in a test", what, lines, maxTestLines)
			}
			got := complexity(fn)
			if wrong := exceeds(name+" "+what, got, branches, branching, used); wrong != "" {
				report(fn, "%s has a cyclomatic complexity of %d; %s", what, got, wrong)
			}
		}
		if got := deepestIn(d); got > levels {
			report(d, "%s nests %d levels deep; at most %d are allowed", what, got, levels)
		}
	}
	if !isTest {
		ast.Inspect(f, func(node ast.Node) bool {
			if spec, ok := node.(*ast.TypeSpec); ok && !mayBeLong(spec.Name) {
				got := structs.fields(name, spec)
				if wrong := exceeds(name+" "+spec.Name.Name, got, maxFields, wide, used); wrong != "" {
					report(spec, "%s has %d fields, those of embedded structs included; %s", spec.Name.Name, got, wrong)
				}
			}
			return true
		})
	}
	return over
}

// declared has the structs of the repository, by directory and name.
type declared map[string]*ast.StructType

func (d declared) add(name string, f *ast.File) {
	for _, decl := range f.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gen.Specs {
			if spec, ok := spec.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					d[path.Dir(name)+"."+spec.Name.Name] = s
				}
			}
		}
	}
}

// fields returns the number of fields of a struct in a file. Those of an embedded struct of the same package count
// instead of it, because they are fields of this one in all but their place.
func (d declared) fields(name string, spec *ast.TypeSpec) int {
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return 0
	}
	return d.count(path.Dir(name), s)
}

func (d declared) count(dir string, s *ast.StructType) (fields int) {
	for _, f := range s.Fields.List {
		if embedded := d[dir+"."+embeddedName(f)]; embedded != nil {
			fields += d.count(dir, embedded)
		} else {
			fields += max(1, len(f.Names))
		}
	}
	return fields
}

// embeddedName returns the name of an embedded type of the same package, or an empty string. Pointers and lists of
// settings are one field.
func embeddedName(f *ast.Field) string {
	if name, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 && !mayBeLong(name) {
		return name.Name
	}
	return ""
}

// mayBeLong reports whether a struct is one of those that list all settings or measurements: Options,
// Metrics and their parts.
func mayBeLong(name *ast.Ident) bool {
	return name.IsExported() && (strings.HasSuffix(name.Name, "Options") || strings.HasSuffix(name.Name, "Metrics"))
}

// Functions nest at most four levels, in tests five, and have a cyclomatic complexity of at most 20, in tests 30. Tests
// have at most 80 lines, and structs at most 25 fields, those of embedded structs included.
func TestCodeKeepsTheLimitsOfShape(t *testing.T) {
	structs, used := declared{}, map[string]bool{}
	for _, f := range goFiles(t) {
		structs.add(f.name, f.File)
	}
	var over []string
	for _, f := range goFiles(t) {
		over = append(over, violations(positions, f.name, f.File, structs, used)...)
	}
	for _, exempt := range []map[string]exemption{branching, wide} {
		for name := range exempt {
			require.True(t, used[name], "there is no %s any more", name)
		}
	}
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
	twenty := "type E struct { " + strings.Repeat("a, b int; ", 10) + "}"
	ofBranches := func(n int) string { // a function has one, and these six
		return "func f() { if a && b || c { }; for range d { }; switch { case e: default: }; select { case <-f: default: }; " +
			strings.Repeat("if a { }; ", n-7) + "}"
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
		{twenty + "; type T struct { E; a, b, c, d, e int }", false, false},
		{twenty + "; type T struct { E; a, b, c, d, e, f int }", true, false},
		{twenty + "; type T struct { *E; a, b, c, d, e, f int }", false, false},
		{twenty + "; type F struct { E }; type T struct { F; a, b, c, d, e, f int }", true, false},
		{ofBranches(20), false, false},
		{ofBranches(21), true, false},
		{ofBranches(30), true, false},
		{ofBranches(31), true, true},
		{ofFields("TableMetrics", 26), false, false},
		{ofLines(80), false, false},
		{ofLines(81), false, true},
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "", "package p\n"+c.source, parser.SkipObjectResolution)
		require.NoError(t, err, c.source)
		structs := declared{}
		structs.add("a.go", f)
		require.Equal(t, c.code, len(violations(fset, "a.go", f, structs, map[string]bool{})) > 0, c.source)
		require.Equal(t, c.test, len(violations(fset, "a_test.go", f, structs, map[string]bool{})) > 0, c.source)
	}
}

// An exemption that is larger than needed is reported as one that is too small is.
func TestExemptionsOnlyBecomeSmaller(t *testing.T) {
	exempt, used := map[string]exemption{"there": {12, "a test"}}, map[string]bool{}
	for _, c := range []struct {
		place string
		got   int
		want  string
	}{
		{"there", 12, ""}, {"there", 13, "at most 12 are allowed here"}, {"there", 11, "lower its exemption from 12 to that"},
		{"there", 10, "it needs no exemption any more"}, {"elsewhere", 10, ""}, {"elsewhere", 11, "at most 10 are allowed"},
	} {
		require.Equal(t, c.want, exceeds(c.place, c.got, 10, exempt, used))
	}
	require.Equal(t, map[string]bool{"there": true}, used)
}

// At most one line of Go in a hundred has more than 120 columns, with tabs of four columns.
func TestGoLinesAreShort(t *testing.T) {
	lines, long := 0, 0
	for _, f := range filesThatEnd(t, ".go") {
		for line := range strings.Lines(f.text) {
			lines++
			if utf8.RuneCountInString(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")) > 120 {
				long++
			}
		}
	}
	require.Greater(t, lines, 50_000)
	require.LessOrEqual(t, long*100, lines, "%d of %d lines", long, lines)
}

// A package comment is at most a page. Formats are in docs/format.md, layouts next to their code.
func TestPackageCommentsAreShort(t *testing.T) {
	comments := 0
	for _, f := range goFiles(t) {
		if f.Doc != nil {
			comments++
			require.LessOrEqual(t, strings.Count(f.Doc.Text(), "\n"), 70, f.name)
		}
	}
	require.Greater(t, comments, 40)
}

// Goroutines of the library start in one place, which resets their pprof labels. Programs and tests have no callers,
// and a cluster's node starts in a goroutine of its own.
func TestGoroutinesStartWithoutLabels(t *testing.T) {
	const place = "internal/base/goroutine.go"
	var elsewhere []string
	started := 0
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.name, "_test.go") || strings.Contains(f.name, "/test/") || f.Name.Name == "main" ||
			strings.HasPrefix(f.name, "cluster/") || strings.HasPrefix(f.name, "cmd/") {
			continue
		}
		ast.Inspect(f.File, func(node ast.Node) bool {
			is := false
			switch node := node.(type) {
			case *ast.GoStmt:
				is = true
			case *ast.SelectorExpr:
				of, named := node.X.(*ast.Ident)
				own := named && of.Name == "base"
				is = node.Sel.Name == "Go" && !own
				started += strings.Count(node.Sel.Name, "Go")
			}
			if is && f.name != place {
				elsewhere = append(elsewhere, positions.Position(node.Pos()).String())
			}
			return true
		})
	}
	require.Greater(t, started, 20)
	require.Empty(t, elsewhere, "use Go or GoIn of %s", place)
}
