package conformance

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	seeds = flag.Int("compat.seeds", 0, "random programs to compare; 0: a fixed set of few")
	// damages is how many damages TestDamageCostsNoMoreThanInGoleveldb makes.
	damages = flag.Int("compat.damages", 0, "damages of a database to compare; 0: few")
	long    = flag.Bool("compat.long", false, "run the test suites of all modules that use goleveldb")
)

const (
	goleveldb = "github.com/syndtr/goleveldb"
	driver    = "github.com/sievedb/sievedb/compat/conformance/driver"
	// moduleDir is the folder of the module that replaces goleveldb.
	moduleDir = "../goleveldb"
)

// side is one of the two modules with goleveldb's path.
type side struct {
	name string
	dir  string // where the go command runs
	work string // GOWORK

	once sync.Once
	bin  string
	err  error
}

var (
	theirs = &side{name: "goleveldb", dir: ".", work: "off"}
	ours   = &side{name: "compat", dir: moduleDir, work: absolute(moduleDir + "/go.work")}
)

func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return abs
}

// binaries is the folder of the built drivers.
var binaries string

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if binaries, err = os.MkdirTemp("", "compat"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(binaries)
	os.Exit(code)
}

// command returns a go command that sees the side's module.
func (s *side) command(args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GOWORK="+s.work, "GOFLAGS=-mod=readonly")
	return cmd
}

// output runs cmd and returns what it prints.
func output(t testing.TB, cmd *exec.Cmd) []byte {
	t.Helper()
	out, err := run(cmd)
	require.NoError(t, err)
	return out
}

func run(cmd *exec.Cmd) ([]byte, error) {
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &problems)
	}
	return out, err
}

// drive runs the driver of a side.
func (s *side) drive(t testing.TB, args ...string) string {
	t.Helper()
	out, err := s.tryDrive(args...)
	require.NoError(t, err)
	return out
}

func (s *side) tryDrive(args ...string) (string, error) {
	s.once.Do(func() {
		s.bin = filepath.Join(binaries, s.name)
		_, s.err = run(s.command("build", "-o", s.bin, driver))
	})
	if s.err != nil {
		return "", s.err
	}
	out, err := run(exec.Command(s.bin, args...))
	return string(out), err
}
