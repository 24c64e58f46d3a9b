package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base/keyspace"
)

// maxCandidates is how many keys are offered at Tab.
const maxCandidates = 200

// keyFlags are flags whose values are keys or prefixes.
var keyFlags = []string{"--prefix", "--from", "--to", "--key"}

// complete completes the word of a line before pos at Tab: a verb, a flag or its value, a key, or a path. It is a
// liner.WordCompleter.
func (a *app) complete(line string, pos int) (head string, candidates []string, tail string) {
	runes := []rune(line)
	before, tail := string(runes[:pos]), string(runes[pos:])
	at := wordStart(before)
	head, word := before[:at], before[at:]
	words, err := splitWords(head)
	if err != nil {
		return head, nil, tail
	}
	for _, c := range a.candidates(words, word) {
		if strings.HasPrefix(c, word) {
			candidates = append(candidates, c)
		}
	}
	return head, candidates, tail
}

// wordStart returns where the last word of a line begins. A word in quotation marks may have spaces.
func wordStart(line string) int {
	start, quote := 0, byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == ' ' || c == '\t':
			start = i + 1
		case (c == '"' || c == '\'') && i == start:
			quote = c
		}
	}
	return start
}

// candidates returns what the word after some words may be.
func (a *app) candidates(words []string, word string) []string {
	b := &app{session: a.session, flags: a.session.flags, ctx: a.ctx}
	root := b.root()
	at := b.verbAt(words)
	if n := len(words); n > 0 {
		if last := words[n-1]; slices.Contains(keyFlags, last) {
			return b.keyCandidates(word)
		} else if values, ok := flagWords[strings.TrimPrefix(last, "--")]; ok && strings.HasPrefix(last, "--") {
			return spaced(values)
		}
	}
	if at >= len(words) && !strings.HasPrefix(word, "-") {
		return b.verbWords(root)
	}
	if strings.HasPrefix(word, "-") {
		var set []string
		add := func(f *pflag.Flag) { set = append(set, "--"+f.Name+" ") }
		root.PersistentFlags().VisitAll(add)
		if c, _, err := root.Find(words[min(at, len(words)):]); err == nil {
			c.Flags().VisitAll(add)
		}
		slices.Sort(set)
		return slices.Compact(set)
	}
	return b.argumentCandidates(words[at], words[at+1:], word)
}

// verbWords are the words that a line of a shell can begin with.
func (a *app) verbWords(root *cobra.Command) []string {
	words := []string{"exit", "quit", "help"}
	for _, c := range root.Commands() {
		if v := a.verbNamed(c.Name()); v != nil && v.notInShell == "" {
			words = append(words, c.Name())
		}
	}
	slices.Sort(words)
	return spaced(words)
}

func spaced(words []string) (all []string) {
	for _, w := range words {
		all = append(all, w+" ")
	}
	return all
}

// argumentCandidates completes an argument of a verb: a key, or a path.
func (a *app) argumentCandidates(name string, before []string, word string) []string {
	v := a.verbNamed(name)
	if v == nil {
		return a.verbWords(a.root()) // 'help VERB'
	}
	names := strings.Fields(strings.NewReplacer("[", "", "]", "", ".", "").Replace(v.use))[1:]
	if !v.noDir {
		names = names[1:]
	}
	n := 0
	for _, w := range before {
		if !strings.HasPrefix(w, "-") {
			n++
		}
	}
	if len(names) == 0 {
		return nil
	}
	if name == "put" {
		n %= 2
	}
	switch names[min(n, len(names)-1)] {
	case "KEY", "FROM", "TO":
		return a.keyCandidates(word)
	case "VALUE":
		return nil
	}
	return pathCandidates(word)
}

func pathCandidates(word string) []string {
	paths, _ := filepath.Glob(word + "*") // a bad pattern has no candidates
	for i, p := range paths {
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			paths[i] = p + string(filepath.Separator)
		} else {
			paths[i] = p + " "
		}
	}
	return paths
}

// keyCandidates returns keys that begin with a word, as they are typed. Keys with a further separator are offered up to
// it, like directories, with one seek for each.
func (a *app) keyCandidates(word string) (candidates []string) {
	format, namespace, err := a.flags.format()
	if err != nil {
		return nil
	}
	typed := word
	if quoted, ok := strings.CutPrefix(word, "\""); ok && format.key == encText {
		if typed, err = strconv.Unquote("\"" + strings.TrimSuffix(quoted, "\"") + "\""); err != nil {
			return nil
		}
	} else if format.key == encText {
		typed = word
	} else if b, err := format.key.decode([]byte(word)); err == nil {
		typed = string(b)
	} else {
		return nil // the middle of an encoded byte
	}
	start := append(namespace, typed...)
	it, err := a.session.store.NewIterator(&db.IterOptions{LowerBound: start, UpperBound: keyspace.After(start), KeysOnly: true, NoFillCache: true})
	if err != nil {
		return nil
	}
	defer it.Close()
	for ok := it.First(); ok && len(candidates) < maxCandidates; {
		key, whole := it.Key(), true
		if i := bytes.IndexAny(key[len(start):], defaultSeparators); i >= 0 && len(start)+i+1 < len(key) {
			key, whole = key[:len(start)+i+1], false
		}
		key = bytes.Clone(key)
		candidates = append(candidates, shellWord(format.key, key[len(namespace):], word, whole))
		if whole {
			ok = it.Next()
		} else if after := keyspace.After(key); after != nil {
			ok = it.SeekGE(after)
		} else {
			break
		}
	}
	return candidates
}

// shellWord returns a key as a word of a shell's line. A word that is not whole has no quotation mark at its end, so
// that more can be typed.
func shellWord(enc encoding, key []byte, word string, whole bool) string {
	text := enc.text(key)
	if enc == encText && text == string(key) && (strings.ContainsAny(text, " '#") || strings.HasPrefix(word, "\"")) {
		text = strconv.Quote(text)
	}
	if !whole {
		return strings.TrimSuffix(text, "\"")
	}
	return text + " "
}
