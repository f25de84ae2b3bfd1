
# What changes while nostray runs, and the command behind run, share and hold.
function __nostray_words
    nostray complete $argv[1] 2>/dev/null
end

function __nostray_command
    set -l words (commandline -opc)
    set -l words $words[3..-1]
    set -l with_value (string split '|' -- 'OPTIONS_WITH_VALUE')
    set -l is_command no
    while set -q words[1]
        if test "$words[1]" = --
            set -e words[1]
            set is_command yes
            break
        else if contains -- $words[1] $with_value
            set -e words[1]
            set -q words[1]; or return # its value is being written
            set -e words[1]
        else if string match -q -- '-*' $words[1]
            set -e words[1]
        else
            set is_command yes
            break
        end
    end
    set -l token (commandline -ct)
    if test $is_command = no; and string match -q -- '-*' $token
        return # an option of nostray
    end
    complete -C (string join -- ' ' (string escape -- $words) $token)
end

complete -c nostray -n "__fish_seen_subcommand_from run share hold" -f -a "(__nostray_command)"
complete -c nostray -n "__fish_seen_subcommand_from stop restart log ps" -f -a "(__nostray_words children)"
complete -c nostray -n "__fish_seen_subcommand_from slot; and __fish_seen_subcommand_from show release" -f -a "(__nostray_words slots)"
complete -c nostray -n "__fish_seen_subcommand_from run share hold ps stop log" -l session -x -a "(__nostray_words sessions)"
complete -c nostray -n "__fish_seen_subcommand_from share hold" -l key -x -a "(__nostray_words keys)"
complete -c nostray -n "__fish_seen_subcommand_from run" -l slot -x -a "(__nostray_words slots)"
