
# What changes while nostray runs, and the command behind run, share and hold.
function __nostray_words
    nostray complete $argv[1] 2>/dev/null
end

# The words of the command behind our options, as far as they are complete. Fails while the next word may still be an option of ours.
function __nostray_command_words
    set -l words (commandline -opc)
    contains -- "$words[2]" run share hold; or return 1
    set words $words[3..-1]
    set -l with_value (string split '|' -- 'OPTIONS_WITH_VALUE')
    while set -q words[1]
        if test "$words[1]" = --
            set -e words[1]
            string join -- \n $words
            return 0
        else if contains -- $words[1] $with_value
            set -e words[1..2]
        else if string match -q -- '-*' $words[1]
            set -e words[1]
        else
            string join -- \n $words
            return 0
        end
    end
    return 1
end

function __nostray_command
    set -l words (__nostray_command_words)
    if test $status -ne 0; and string match -q -- '-*' (commandline -ct)
        return # an option of nostray
    end
    complete -C (string join -- ' ' (string escape -- $words) (commandline -ct))
end

# Behind the command nothing is ours.
functions -q __nostray_using_subcommand; and functions -e __nostray_using_subcommand
functions -c __fish_nostray_using_subcommand __nostray_using_subcommand
function __fish_nostray_using_subcommand
    __nostray_command_words >/dev/null; and return 1
    __nostray_using_subcommand $argv
end

complete -c nostray -n "__fish_seen_subcommand_from run share hold" -f -a "(__nostray_command)"
complete -c nostray -n "__fish_seen_subcommand_from stop restart log ps" -f -a "(__nostray_words children)"
complete -c nostray -n "__fish_seen_subcommand_from slot; and __fish_seen_subcommand_from show release" -f -a "(__nostray_words slots)"
complete -c nostray -n "__fish_seen_subcommand_from run share hold ps stop log" -l session -x -a "(__nostray_words sessions)"
complete -c nostray -n "__fish_seen_subcommand_from share hold" -l key -x -a "(__nostray_words keys)"
complete -c nostray -n "__fish_seen_subcommand_from run" -l slot -x -a "(__nostray_words slots)"
