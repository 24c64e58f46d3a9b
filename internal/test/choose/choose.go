package main

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
)

// choice is a chosen test and the reason.
type choice struct{ test, reason string }

// choose returns the tests of a kind, in the order of their files.
func (c *code) choose(kind string) (chosen []choice) {
	for _, test := range c.tests {
		reason := ""
		if kind == "race" {
			reason = c.reasonToWatch(test.Name.Name)
		} else if marked(test, "//make:"+kind) {
			reason = "//make:" + kind
		}
		if reason != "" {
			chosen = append(chosen, choice{test.Name.Name, reason})
		}
	}
	return chosen
}

// marked reports whether a line is in the comment above a function.
func marked(f *ast.FuncDecl, line string) bool {
	return f.Doc != nil && slices.ContainsFunc(f.Doc.List, func(c *ast.Comment) bool { return c.Text == line })
}

// reasonToWatch says how a test uses goroutines. It returns an empty string if it uses none, or if it runs the go
// command or depends on the clock.
func (c *code) reasonToWatch(test string) string {
	w := c.walkFrom(test, false)
	if w.out || c.walkFrom("TestMain", true).out {
		return ""
	}
	return w.reason
}

func (c *code) walkFrom(name string, main bool) *walk {
	w := &walk{main: main, seen: map[*declaration]bool{}, types: map[place]bool{}, selected: map[string]bool{}}
	for _, d := range c.declared[name] {
		w.visit(d)
	}
	return w
}

// place is a name in the code of a directory.
type place struct {
	in   *code
	name string
}

// walk visits what a test mentions.
type walk struct {
	main     bool // from TestMain, which may mention what tests build if they need it
	seen     map[*declaration]bool
	types    map[place]bool
	selected map[string]bool
	reason   string
	out      bool
}

func (w *walk) visit(d *declaration) {
	if w.seen[d] {
		return
	}
	w.seen[d] = true
	w.out = w.out || d.out && (d.isFunc || !w.main)
	if w.reason == "" {
		w.reason = d.starts
	}
	if w.reason == "" && d.isFunc {
		w.reason = d.shares
	}
	for _, name := range d.mention {
		w.mention(d.in, name)
	}
	for _, imported := range d.imported {
		dir := filepath.Join(d.in.sources.root, strings.TrimPrefix(imported[0], module))
		if other, err := d.in.sources.load(dir); err == nil {
			w.mention(other, imported[1])
		}
	}
	for _, name := range d.selected {
		if w.selected[name] {
			continue
		}
		w.selected[name] = true
		for t := range w.types {
			w.method(t, name)
		}
	}
}

func (w *walk) mention(in *code, name string) {
	for _, d := range in.declared[name] {
		if d.isTest {
			continue
		}
		if t := (place{in, name}); d.isType && !w.types[t] {
			w.types[t] = true
			for method := range w.selected {
				w.method(t, method)
			}
		}
		w.visit(d)
	}
}

func (w *walk) method(t place, name string) {
	for _, d := range t.in.declared[t.name+"."+name] {
		w.visit(d)
	}
}
