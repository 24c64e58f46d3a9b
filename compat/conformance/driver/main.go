// Command driver runs a random program on package leveldb and prints a transcript of every answer. It is
// built twice, with goleveldb and with the module that replaces it: the transcripts must be equal.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
)

func main() {
	seed := flag.Int64("seed", 1, "of the program")
	steps := flag.Int("steps", 500, "number of `calls`")
	dir := flag.String("dir", "", "empty `folder` for databases")
	where := flag.String("storage", "file", "of random: file, mem or custom; of the others the options: file, filter, comparer or strict")
	task := flag.String("task", "random", "random or, on an existing folder, fill, dump, salvage, recover or old")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	var err error
	switch *task {
	case "random":
		p := &program{out: out, rnd: rand.New(rand.NewSource(*seed)), dir: filepath.Join(*dir, "db"), where: *where}
		err = p.run(*steps)
	default:
		err = runTask(out, *task, *dir, *where, *seed)
	}
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
