package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// shells are the scripts of `banyan completion`. Commands stand in them; flags
// are asked of the command's own help, so that they are those of the program.
var shells = map[string]string{
	"bash": `_banyan() {
	local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
	if [ "$COMP_CWORD" = 1 ]; then
		COMPREPLY=($(compgen -W "COMMANDS" -- "$word"))
	elif [[ $word == -* ]]; then
		COMPREPLY=($(compgen -W "$(banyan "$command" --help 2>&1 | sed -n 's/^  \(--[a-z0-9._-]*\).*/\1/p')" -- "$word"))
	else
		COMPREPLY=($(compgen -f -- "$word"))
	fi
}
complete -o filenames -F _banyan banyan
`,
	"zsh": `autoload -U +X compinit bashcompinit && compinit && bashcompinit
`, // and what bash gets
	"fish": `complete -c banyan -f -n __fish_use_subcommand -a "COMMANDS"
complete -c banyan -F -n "not __fish_use_subcommand" -a "(banyan (commandline -opc)[2] --help 2>&1 | string match -rg '^  (--[a-z0-9._-]+)')"
`,
}

// completion prints a script for a shell.
func completion(_ context.Context, args []string, stdout, _ io.Writer) error {
	fs := flagSet("completion", stdout)
	if err := parse(fs, args); err != nil {
		return err
	}
	script, ok := shells[fs.Arg(0)]
	if !ok || fs.NArg() != 1 {
		return usageError{errors.New("name one shell: bash, zsh or fish, as in: source <(banyan completion bash)")}
	}
	if fs.Arg(0) == "zsh" {
		script += shells["bash"]
	}
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	slices.Sort(names)
	_, err := fmt.Fprint(stdout, strings.ReplaceAll(script, "COMMANDS", strings.Join(names, " ")))
	return err
}
