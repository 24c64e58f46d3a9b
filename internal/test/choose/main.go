package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	why := flag.Bool("why", false, "print the tests with the reasons")
	dir := flag.String("C", ".", "the directory to which the patterns of packages are relative")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: choose [-why] [-C directory] race|NAME packages")
		os.Exit(2)
	}
	out, err := run(*dir, flag.Arg(0), flag.Args()[1:], *why)
	if err != nil {
		fmt.Fprintln(os.Stderr, "choose:", err)
		os.Exit(1)
	}
	fmt.Print(out)
}

// run returns the output for a kind of tests and patterns of packages. Their directories in it are relative to base.
func run(base, kind string, patterns []string, why bool) (string, error) {
	dirs, err := goList(base, append([]string{"-find", "-f", "{{.Dir}}"}, patterns...)...)
	if err != nil {
		return "", err
	}
	root, err := goList(base, "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", err
	}
	base, err = filepath.Abs(base)
	if err != nil {
		return "", err
	}
	s := newSources(root[0])
	var names, used []string
	var reasons strings.Builder
	for _, dir := range dirs {
		p, err := s.load(dir)
		if err != nil {
			return "", err
		}
		if dir, err = filepath.Rel(base, dir); err != nil {
			return "", err
		}
		dir = "./" + filepath.ToSlash(dir)
		chosen := p.choose(kind)
		for _, c := range chosen {
			names = append(names, c.test)
			fmt.Fprintf(&reasons, "%s %s: %s\n", dir, c.test, c.reason)
		}
		if len(chosen) > 0 {
			used = append(used, dir)
		}
	}
	if len(names) == 0 {
		return "", fmt.Errorf("no test of %s is of the kind %q", strings.Join(patterns, " "), kind)
	}
	if why {
		return reasons.String(), nil
	}
	slices.Sort(names)
	return "-run=^(" + strings.Join(slices.Compact(names), "|") + ")$ " + strings.Join(used, " ") + "\n", nil
}

// goList returns the words that go list prints.
func goList(dir string, args ...string) ([]string, error) {
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("go list %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.Fields(string(out)), err
}
