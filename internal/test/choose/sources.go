package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/sievedb/sievedb"

// sources parses the code of tests, each directory once.
type sources struct {
	root string // the directory of the module
	fset *token.FileSet
	read map[string]*code
}

func newSources(root string) *sources {
	return &sources{root: root, fset: token.NewFileSet(), read: map[string]*code{}}
}

// code is what the tests of a directory declare, those of the external test package too.
type code struct {
	sources *sources
	// By name; a method's is Type.Method. Several declarations can have one name, under different build constraints.
	declared map[string][]*declaration
	tests    []*ast.FuncDecl
}

// declaration is a function, a method, a type, or a variable.
type declaration struct {
	in      *code
	isType  bool
	isFunc  bool // no method
	isTest  bool
	starts  string // what in it starts a goroutine; empty if nothing does
	shares  string // what in it shares something with goroutines
	out     bool   // a test with this is left out: it runs the go command, or depends on the clock
	mention []string
	// Selected names: of methods and fields.
	selected []string
	// What it mentions of packages for tests: import path and name.
	imported [][2]string
}

var forTests = regexp.MustCompile(`/internal/test/|test$`)

// load parses the tests in a directory. In a package that only tests import, everything is the code of tests.
func (s *sources) load(dir string) (*code, error) {
	if c := s.read[dir]; c != nil {
		return c, nil
	}
	c := &code{sources: s, declared: map[string][]*declaration{}}
	s.read[dir] = c
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := forTests.MatchString(filepath.ToSlash(dir))
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, "_test.go") || all && strings.HasSuffix(name, ".go") {
			f, err := parser.ParseFile(s.fset, filepath.Join(dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			c.add(f)
		}
	}
	return c, nil
}

// parse reads a single file, for tests of this package.
func parse(text string) (*code, error) {
	s := newSources("")
	c := &code{sources: s, declared: map[string][]*declaration{}}
	f, err := parser.ParseFile(s.fset, "a_test.go", text, parser.ParseComments|parser.SkipObjectResolution)
	if err == nil {
		c.add(f)
	}
	return c, err
}

func (c *code) add(f *ast.File) {
	imports := map[string]string{} // by the name in the file
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = p
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			isTest := d.Recv == nil && strings.HasPrefix(name, "Test") && name != "TestMain"
			if isTest {
				c.tests = append(c.tests, d)
			}
			declared := c.declare(name, d, imports)
			declared.isFunc, declared.isTest = d.Recv == nil, isTest
			declared.out = declared.out || !isTest && (marked(d, "//race:clock") || marked(d, "//race:long"))
			if !isTest && marked(d, "//race:apart") {
				declared.starts, declared.shares = "", ""
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				c.addSpec(spec, imports)
			}
		}
	}
}

func (c *code) addSpec(spec ast.Spec, imports map[string]string) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		c.declare(spec.Name.Name, spec.Type, imports).isType = true
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			c.declare(name.Name, spec, imports)
		}
	}
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

func (c *code) declare(name string, node ast.Node, imports map[string]string) *declaration {
	d := &declaration{in: c}
	c.declared[name] = append(c.declared[name], d)
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		c.note(&d.starts, startsGoroutine(n), n)
		c.note(&d.shares, shares(n, imports), n)
		switch n := n.(type) {
		case *ast.Ident:
			d.mention = append(d.mention, n.Name)
		case *ast.CallExpr:
			d.out = d.out || runsGo(n, imports)
		case *ast.SelectorExpr:
			d.selected = append(d.selected, n.Sel.Name)
			if pkg := imports[nameOf(n.X)]; strings.HasPrefix(pkg, module) && forTests.MatchString(pkg) {
				d.imported = append(d.imported, [2]string{pkg, n.Sel.Name})
			}
			ast.Inspect(n.X, visit)
			return false // the name is a method's or a field's
		}
		return true
	}
	ast.Inspect(node, visit)
	return d
}

// note adds the place of n to the first reason.
func (c *code) note(to *string, reason string, n ast.Node) {
	if reason != "" && *to == "" {
		at := c.sources.fset.Position(n.Pos())
		*to = reason + " at " + filepath.Base(at.Filename) + ":" + strconv.Itoa(at.Line)
	}
}

func nameOf(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// startsGoroutine says how a statement or an expression starts a goroutine, or returns an empty string.
func startsGoroutine(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a go statement"
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		if ok && sel.Sel.Name == "Go" && len(n.Args) == 1 {
			return "a call of Go"
		}
		if ok && sel.Sel.Name == "Parallel" && len(n.Args) == 0 {
			return "a call of Parallel"
		}
	}
	return ""
}

// shares says how a statement or an expression shares something with other goroutines, or returns an empty string.
func shares(n ast.Node, imports map[string]string) string {
	switch n := n.(type) {
	case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
		return "a channel"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "a channel"
		}
	case *ast.SelectorExpr:
		if p := imports[nameOf(n.X)]; (p == "sync" || p == "sync/atomic") && !strings.HasPrefix(n.Sel.Name, "Once") {
			return p + "." + n.Sel.Name
		}
	}
	return ""
}

// runsGo reports whether a call starts the go command.
func runsGo(call *ast.CallExpr, imports map[string]string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || imports[nameOf(sel.X)] != "os/exec" || !strings.HasPrefix(sel.Sel.Name, "Command") {
		return false
	}
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		lit, ok := arg.(*ast.BasicLit)
		return ok && lit.Value == `"go"`
	})
}
