package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const imports = `package p
import ("os/exec"; "sync"; "sync/atomic"; "testing")
`

func chosen(t *testing.T, kind, source string) (tests []string) {
	c, err := parse(imports + source)
	require.NoError(t, err, source)
	for _, choice := range c.choose(kind) {
		tests = append(tests, choice.test)
	}
	return tests
}

func TestTestsThatUseGoroutinesAreChosen(t *testing.T) {
	for name, source := range map[string]string{
		"a go statement":             `func TestX(t *testing.T) { go func() {}() }`,
		"in a subtest":               `func TestX(t *testing.T) { t.Run("a", func(t *testing.T) { for { go f() } }) }`,
		"a group":                    `func TestX(t *testing.T) { g.Go(func() {}) }`,
		"parallel subtests":          `func TestX(t *testing.T) { t.Run("a", func(t *testing.T) { t.Parallel() }) }`,
		"a channel":                  `func TestX(t *testing.T) { c := make(chan int); close(c) }`,
		"a receive":                  `func TestX(t *testing.T) { <-done }`,
		"a lock":                     `func TestX(t *testing.T) { var mu sync.Mutex; mu.Lock() }`,
		"an atomic":                  `func TestX(t *testing.T) { var n atomic.Int32; n.Add(1) }`,
		"a function that it calls":   `func TestX(t *testing.T) { help(t) }; func help(t *testing.T) { more(t) }; func more(t *testing.T) { go f() }`,
		"a function that it passes":  `func TestX(t *testing.T) { each(help) }; func help() { go f() }`,
		"a method":                   `func TestX(t *testing.T) { w := new(worker); w.run() }; type worker struct{}; func (w *worker) run() { go f() }`,
		"a method of a helper's":     `func TestX(t *testing.T) { help().run() }; func help() worker[int] { return worker[int]{} }; type worker[T any] struct{}; func (w worker[T]) run() { go f() }`,
		"a variable":                 `func TestX(t *testing.T) { run(cases) }; var cases = []func(){ func() { go f() } }`,
		"selected before it is made": `func TestX(t *testing.T) { w.run(); _ = worker{} }; type worker struct{}; func (w *worker) run() { go f() }`,
	} {
		require.Equal(t, []string{"TestX"}, chosen(t, "race", source), name)
	}
}

func TestOtherTestsAreLeftOut(t *testing.T) {
	for name, source := range map[string]string{
		"one goroutine":                  `func TestX(t *testing.T) { open(t) }`,
		"what is made once":              `func TestX(t *testing.T) { fixture() }; var fixture = sync.OnceValue(func() int { return 1 })`,
		"a helper that it does not use":  `func TestX(t *testing.T) {}; func help() { go f() }`,
		"a method of another type":       `func TestX(t *testing.T) { file.run() }; type worker struct{}; func (w *worker) run() { go f() }`,
		"a method that is not called":    `func TestX(t *testing.T) { w := new(worker); w.open() }; type worker struct{}; func (w *worker) run() { go f() }`,
		"what takes minutes":             "func TestX(t *testing.T) { new(w).run() }\ntype w struct{}\n//race:long\nfunc (w *w) run() { go f() }",
		"what depends on the clock":      "func TestX(t *testing.T) { go help() }\n//race:clock\nfunc help() {}",
		"a program that TestMain builds": `func TestX(t *testing.T) { go f() }; func TestMain(m *testing.M) { exec.Command("go", "build").Run() }`,
		"goroutines that share nothing":  "func TestX(t *testing.T) { help() }\n//race:apart\nfunc help() { go f() }",
		"a program that it builds":       `func TestX(t *testing.T) { go build() }; func build() { exec.Command("go", "build").Run() }`,
		"a helper with a lock":           `func TestX(t *testing.T) { open(&counting{}) }; type counting struct { mu sync.Mutex }; func (c *counting) open() { c.mu.Lock() }`,
		"what is no test":                `func help() { go f() }; func TestMain(m *testing.M) { go f() }`,
	} {
		require.Empty(t, chosen(t, "race", source), name)
	}
	require.NotEmpty(t, chosen(t, "race", `func TestX(t *testing.T) { go exec.Command("other").Run() }`), "the program may be this test")
}

func TestMarkedTestsAreChosen(t *testing.T) {
	source := strings.Join([]string{
		"// TestA has a comment.", "//", "//make:gates", "//make:portable", "func TestA(t *testing.T) {}",
		"//make:gates", "func TestB(t *testing.T) {}", "// make:gates", "func TestC(t *testing.T) {}", "func TestD(t *testing.T) {}",
	}, "\n")
	require.Equal(t, []string{"TestA", "TestB"}, chosen(t, "gates", source))
	require.Equal(t, []string{"TestA"}, chosen(t, "portable", source))
	require.Empty(t, chosen(t, "gate", source))
}

// The helpers of a package for tests are seen, and the output is what go test expects.
func TestArgumentsAreThoseOfGoTest(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                     "module " + module + "\n\ngo 1.25.0\n",
		"a/a_test.go":                "package a_test\n\nfunc TestDirect(t *testing.T) {\n\tgo f()\n}\n",
		"b/b.go":                     "package b\n\nfunc f() { go f() }\n",
		"b/b_test.go":                "package b\n\nimport \"" + module + "/internal/test/help\"\n\nfunc TestHelped(t *testing.T) { help.Wait() }\n\nfunc TestAlone(t *testing.T) { f() }\n",
		"internal/test/help/help.go": "package help\n\nfunc Wait() { <-done }\n",
	} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	out, err := run(dir, "race", []string{"./..."}, false)
	require.NoError(t, err)
	require.Equal(t, "-run=^(TestDirect|TestHelped)$ ./a ./b\n", out)
	out, err = run(dir, "race", []string{"./..."}, true)
	require.NoError(t, err)
	require.Equal(t, "./a TestDirect: a go statement at a_test.go:4\n./b TestHelped: a channel at help.go:3\n", out)
	_, err = run(dir, "gates", []string{"./..."}, false)
	require.EqualError(t, err, `no test of ./... is of the kind "gates"`)
	_, err = run(dir, "race", []string{"./missing"}, false)
	require.ErrorContains(t, err, "go list")
}
