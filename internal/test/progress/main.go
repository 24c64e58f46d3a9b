// Command progress runs tests in steps and prints each package as it ends, with how many are left: what make test
// shows.
//
//	progress [-left-out text] title directory words [title directory words …]
//
// A step has a title, the directory of its workspace, and the flags and packages of its go test, divided by spaces.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

func main() {
	leftOut := flag.String("left-out", "", "a line before the last: what these steps do not run, and what does")
	flag.Parse()
	if flag.NArg() == 0 || flag.NArg()%3 != 0 {
		fmt.Fprintln(os.Stderr, "usage: progress [-left-out text] title directory words [title directory words …]")
		os.Exit(2)
	}
	r := newReport(os.Stdout)
	for i := 0; i < flag.NArg(); i += 3 {
		title, dir, words := flag.Arg(i), flag.Arg(i+1), strings.Fields(flag.Arg(i+2))
		fmt.Printf("step %d of %d: %s\n", i/3+1, flag.NArg()/3, title)
		if err := r.run(dir, words); err != nil {
			fmt.Fprintln(os.Stderr, "progress:", err)
			r.failed = append(r.failed, title)
			break // what the other steps need is missing too
		}
	}
	r.end(*leftOut)
	if len(r.failed) > 0 {
		os.Exit(1)
	}
}

// run runs one go test. It returns an error if the go command cannot do so; failed tests are in the report.
func (r *report) run(dir string, words []string) error {
	var packages []string
	for _, w := range words {
		if !strings.HasPrefix(w, "-") {
			packages = append(packages, w)
		}
	}
	if packages == nil {
		return errors.New("there are no packages to test") // go test would take that of the directory
	}
	list := exec.Command("go", append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}, packages...)...)
	list.Dir, list.Stderr = dir, os.Stderr // it may print what it downloads
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list in %s: %w", dir, err)
	}
	r.left = len(strings.Fields(string(out)))
	test := exec.Command("go", append([]string{"test", "-json"}, words...)...)
	test.Dir, test.Stderr = dir, os.Stderr
	events, err := test.StdoutPipe()
	if err != nil {
		return err
	}
	if err := test.Start(); err != nil {
		return err
	}
	failed := len(r.failed)
	r.read(events)
	err = test.Wait()
	r.cpu += test.ProcessState.UserTime() + test.ProcessState.SystemTime()
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) && len(r.failed) > failed {
		return nil
	}
	return fmt.Errorf("go test in %s: %w", dir, err)
}

// event is what go test -json prints; see go doc test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// test is a test by its package and name; a package has an empty one.
type test struct{ pkg, name string }

// report counts events, and prints what a user wants to see of them.
type report struct {
	to       io.Writer
	begun    time.Time
	shown    time.Time // when something was printed last
	cpu      time.Duration
	left     int
	passed   int
	ofThis   map[string]int  // passed tests by package
	output   map[test]string // of what has not ended
	skipped  map[string]int  // tests by their reason
	failed   []string
	patience time.Duration // silence after which a line says that work goes on
}

func newReport(to io.Writer) *report {
	return &report{to: to, begun: time.Now(), shown: time.Now(), ofThis: map[string]int{}, output: map[test]string{}, skipped: map[string]int{},
		patience: 15 * time.Second}
}

// read follows the events of a go test until it ends.
func (r *report) read(events io.Reader) {
	next := make(chan event)
	go func() {
		defer close(next)
		for d := json.NewDecoder(events); ; {
			var e event
			if d.Decode(&e) != nil {
				_, _ = io.Copy(io.Discard, events) // or the go command waits for a reader
				return
			}
			next <- e
		}
	}()
	for tick := time.NewTicker(time.Second); ; {
		select {
		case e, ok := <-next:
			if !ok {
				return
			}
			r.add(e)
		case <-tick.C:
			if time.Since(r.shown) >= r.patience {
				r.print("      %d packages left, after %s: compiling, or a long test\n", r.left, round(time.Since(r.begun)))
			}
		}
	}
}

func (r *report) print(format string, args ...any) {
	r.shown = time.Now()
	fmt.Fprintf(r.to, format, args...)
}

func (r *report) add(e event) {
	of := test{e.Package, e.Test}
	switch e.Action {
	case "output":
		r.output[of] += e.Output
		return
	case "build-output":
		r.print("%s", e.Output)
		return
	case "pass":
		if e.Test == "" {
			r.packageEnded("ok  ", e)
		} else if !strings.Contains(e.Test, "/") {
			r.passed++
			r.ofThis[e.Package]++
		}
	case "skip":
		if e.Test != "" {
			r.skipped[reason(r.output[of])]++
		}
	case "fail":
		if e.Test == "" {
			r.printUnended(e.Package)
		}
		r.print("%s", r.output[of])
		if e.Test == "" {
			r.failed = append(r.failed, e.Package)
			r.packageEnded("FAIL", e)
		}
	default:
		return
	}
	delete(r.output, of)
}

// printUnended prints what the tests of a package said that have no end: a panic or the end of the time is in one of
// them.
func (r *report) printUnended(pkg string) {
	for of, output := range r.output {
		if of.pkg == pkg && of.name != "" {
			r.print("%s", output)
			delete(r.output, of)
		}
	}
}

func (r *report) packageEnded(result string, e event) {
	r.left--
	took := fmt.Sprintf("%5.1f s", e.Elapsed)
	if strings.Contains(r.output[test{e.Package, ""}], "(cached)") {
		took = "cached"
	}
	r.print("%s %7s  %4d tests  %s (%d left)\n", result, took, r.ofThis[e.Package], strings.TrimPrefix(e.Package, "github.com/"), r.left)
	delete(r.ofThis, e.Package)
}

// reason returns what a skipped test said: of "    x_test.go:12: there is no browser" what follows the place.
func reason(output string) string {
	for line := range strings.Lines(output) {
		if _, said, ok := strings.Cut(line, "_test.go:"); ok {
			_, said, _ = strings.Cut(said, ": ")
			return strings.TrimSpace(said)
		}
	}
	return "it gave no reason"
}

// end prints the sums.
func (r *report) end(leftOut string) {
	for _, why := range slices.Sorted(maps.Keys(r.skipped)) {
		r.print("skipped: %d of: %s\n", r.skipped[why], why)
	}
	r.print("%s\n", leftOut)
	took := fmt.Sprintf("in %s (%s of processor time)", round(time.Since(r.begun)), round(r.cpu))
	if len(r.failed) > 0 {
		r.print("FAILED %s: %s\n", took, strings.Join(r.failed, ", "))
	} else {
		r.print("%d tests passed %s\n", r.passed, took)
	}
}

func round(d time.Duration) time.Duration { return d.Round(time.Second) }
