
# What changes while nostray runs, and the command behind run, share and hold.
_nostray_words() {
    local word what
    while IFS=$'\t' read -r word what; do
        [[ $word == "$2"* ]] && COMPREPLY+=("$word")
    done < <("${COMP_WORDS[0]}" complete "$1" 2>/dev/null)
}

_nostray_all() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} first=2
    COMPREPLY=()
    # The shell splits --key=NAME into three words.
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    case ${COMP_WORDS[1]} in
    run|share|hold)
        while ((first < COMP_CWORD)); do
            case ${COMP_WORDS[first]} in
            --) ((first++)); break ;;
            =) ((first += 2)) ;;
            OPTIONS_WITH_VALUE) if [[ ${COMP_WORDS[first+1]} == = ]]; then ((first++)); else ((first += 2)); fi ;;
            -*) ((first++)) ;;
            *) break ;;
            esac
        done
        if ((first < COMP_CWORD)); then
            if declare -F _command_offset >/dev/null; then _command_offset "$first"; fi
            return
        fi
        if ((first == COMP_CWORD)) && [[ $cur != -* || ${COMP_WORDS[COMP_CWORD-1]} == -- ]]; then
            COMPREPLY=($(compgen -c -- "$cur"))
            return
        fi
        ;;
    esac
    case $prev in
    --session) _nostray_words sessions "$cur"; return ;;
    --key) _nostray_words keys "$cur"; return ;;
    --slot) _nostray_words slots "$cur"; return ;;
    esac
    if [[ $cur != -* && $COMP_CWORD -gt 1 ]]; then
        case ${COMP_WORDS[1]} in
        stop|restart|log|ps) [[ $prev != -* || $prev == -q || $prev == -f ]] && { _nostray_words children "$cur"; return; } ;;
        slot) [[ $prev == show || $prev == release ]] && { _nostray_words slots "$cur"; return; } ;;
        esac
    fi
    _nostray "$@"
}

complete -F _nostray_all -o nosort -o bashdefault -o default nostray 2>/dev/null ||
    complete -F _nostray_all -o bashdefault -o default nostray
