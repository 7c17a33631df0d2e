#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""packaging/upstream/series.py KERNEL DIR: writes the module as a series of patches for that source.

The patches go into DIR, and a repository of the files that they touch into DIR/work. The code comes
from this tree, changed by rules, each of which must match. series.txt contains the messages of the
patches, prose.txt comments that differ in the kernel, and tree/ the files that only exist there.
"""
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
DRIVER = 'drivers/misc/twheel/'
TESTS = DRIVER + 'tests/'
SELFTESTS = 'tools/testing/selftests/twheel/'
OURS = ('twheel_core.c', 'twheel.mod.c', 'twheel_kunit.mod.c', 'include/compat.h')
UAPI = 'include/uapi/linux/twheel.h'
COLUMNS = 100
# The number of the patch that adds a file: the first pattern that matches its path decides.
PATCHES = [(6, 'MAINTAINERS'), (5, 'tools/'), (1, r'.*/(twheel|index)\.rst'),
           (4, r'.*ioctl-number|.*twheel/(chrdev|ioctl|turn|exchange)\.'), (3, UAPI),
           (2, r'.*misc/[KM]|.*twheel/([KM.]|wheel\.|tests/(?!word_|notrace|apply))'), (3, '')]

# Changes to the code: the device gets no fixed minor number, and everything goes that only an
# out-of-tree module needs. OLDER applies if the source has no hrtimer_setup(), and PREPARE if it
# has vma_desc_test(), because it also has mmap_prepare() then, and mmap() is deprecated.
RULES = [('include/twheel_trace.h', 'FILE twheel_trace', 'FILE trace')]
RULES += [('twheel_chrdev.c', *rule) for rule in (
    ('= TWHEEL_MINOR,', '= MISC_DYNAMIC_MINOR,'), (r'timers_\*', 'twheel_timers_*'),
    (r'^\tif \(err == -EBUSY\) \{\n(?:\t\t.*\n)*\t\}\n', ''),
    (r'^#define pr_fmt.*\n\n|^MODULE_(AUTHOR|VERSION|ALIAS\w*)\(.*\n', ''),
    (r'twheel\.c  (.*?)  ', r'wheel.c    \1 '))]
OLDER = ('twheel_turn.c', r'hrtimer_setup\(&([\w>-]+), (\w+), (.*)\);',
         r'hrtimer_init(&\1, \3);\n\t\1.function = \2;')
PREPARE = [('twheel_chrdev.c', *rule) for rule in (
    (r'mmap\(struct file \*file, struct vm_area_struct \*', 'mmap_prepare(struct vm_area_desc *'),
    (r'(\.mmap)\t(\t= twheel_mmap)', r'\1_prepare\2_prepare'), (r'vma_pages', 'vma_desc_pages'),
    (r'file(->private_data;\n\tstruct twheel_table)', r'vma->file\1'),
    (r'\(vma->vm_flags & (\w+)\)', r'vma_desc_test(vma, \1)'), (r'vma->vm_(?!ops)', 'vma->'),
    (r'vm_flags_(\w+)\(', r'vma_desc_\1_flags('), (r'\bVM(_\w+)\)', r'VMA\1_BIT)'),
    (r'\bVM(_\w+) \|', r'VMA\1_BIT,'), (r'\bvma\b', 'desc'))]

def die(why):
    sys.exit(f'series.py: {why}')

def read(path, top=TOP):
    return pathlib.Path(top, path).read_text('utf-8')

def write(path, text, top):
    path = pathlib.Path(top, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, 'utf-8')

def swap(text, old, new, flags=re.M):
    """Replaces a pattern, which must match."""
    text, found = re.subn(old, new, text, flags=flags)
    return text if found else die(f'a rule no longer matches its file: {old!r}')

def fill(paragraph, lead):
    return [lead + line for line in textwrap.wrap(paragraph, 92 - len(lead.expandtabs(8)),
                                                  break_long_words=False, break_on_hyphens=False)]

def refill(lines, at):
    """Rewraps the paragraph of a comment that contains the line at this index."""
    lead = re.match(r'\s*\* |', lines[at])[0]
    if not lead:
        lines[at:at + 1] = [lines[at]] * bool(lines[at].strip())
        return
    first = last = at
    while lines[first - 1].startswith(lead) and not lines[first].startswith(lead + '@'):
        first -= 1
    while lines[last + 1].startswith(lead) and not lines[last + 1].startswith(lead + '@'):
        last += 1
    lines[first:last + 1] = fill(' '.join(line[len(lead):] for line in lines[first:last + 1]), lead)

def source(path):
    """Returns a file of this tree, with those comments replaced that would be wrong in the kernel."""
    text = read(path)
    for old, new in re.findall(rf'^{re.escape(path)}\n(.+)\n(.*)\n', read('prose.txt', HERE), re.M):
        match = re.search(r'\s+(?:\*\s+)?'.join(map(re.escape, old.split())), text)
        match or die(f'{path} no longer contains the text that prose.txt replaces: "{old}"')
        at = text[:match.start()].count('\n')
        lines = (text[:match.start()] + new + text[match.end():]).split('\n')
        refill(lines, at)
        text = '\n'.join(lines)
    text = re.sub(r'\n \*\n \*/', r'\n */', re.sub(r'\n{3,}', '\n\n', text))
    # The kernel's tests do not name the guarantees of twheel(7), G1 to G11.
    return re.sub(r'^[ \t]*/\* G\d+(?:, G\d+)* \*/\n|\bG\d+(?:, G\d+)*: ', '', text, flags=re.M)

def new_name(path):
    """Returns the kernel's name for a file of the module or of its suites."""
    base = re.sub('^twheel_', '', re.sub(r'^twheel(?=\.|_kunit\.)', 'wheel', path.split('/')[-1]))
    return (TESTS if path[:5] == 'kunit' or base in ('apply.h', 'notrace.h') else DRIVER) + base

def globals_of(headers):
    """Returns the global functions and variables that do not have the prefix twheel_."""
    found = re.findall(r'^(?!static|typedef|extern|#)[a-z][\w *]*?\b(\w+)\(|^extern .*?(\w+);$',
                       '\n'.join(headers), re.M)
    return {a or b for a, b in found if not (a or b).startswith('twheel_')}

def indent(columns):
    return '\t' * (columns // 8) + ' ' * (columns % 8)

def wrap(line):
    """Breaks a line that has become too long after a comma or an operator."""
    wide = line.expandtabs(8)
    own = len(wide) - len(wide.lstrip())
    for at in range(COLUMNS, own, -1) if len(wide) > COLUMNS and '"' not in wide else ():
        if wide[at] == ' ' and re.search(r'(,|&&|\|\||[^=!<>]=|[?:])$', wide[:at]):
            opened = []
            for i, char in enumerate(wide[:at]):
                if char == '(':
                    opened.append(i + 1)
                elif char == ')':
                    opened.pop()
            rest = indent(opened[-1] if opened else own + 8) + wide[at + 1:]
            return [indent(own) + wide[own:at]] + wrap(rest)
    return [line]

def rename(text, names):
    """Adds the prefix to global functions, and realigns continuation lines."""
    pattern = re.compile(rf'(?<![\w.>"])(?<!\bstruct )({"|".join(names)})\b')
    out, opened, comment = [], [], False
    for line in text.split('\n'):
        new = pattern.sub(lambda m: 'twheel_'[:1 if m[1][:6] == 'wheel_' else 7] + m[1], line)
        if comment or re.match(r'\s*/?\*', line):
            comment = '*/' not in line
            out.append(new)
            continue
        old = line.expandtabs(8)
        place = [to for at, to in opened if at + 1 == len(old) - len(old.lstrip())]
        if place and old.strip():
            new = indent(place[-1] + 1) + new.lstrip()
        for at, to in zip(*([i for i, char in enumerate(of.expandtabs(8)) if char in '()']
                            for of in (line, new))):
            if old[at] == '(':
                opened.append((at, to))
            elif opened:
                opened.pop()
        if re.match(r'[#})]|\s*$', line):
            opened = []
        out += wrap(new)
    for i in reversed([i for i, line in enumerate(out) if len(line) > COLUMNS]):
        refill(out, i) if out[i].lstrip().startswith('* ') else None
    return '\n'.join(out)

def module(kernel):
    """Returns the files of the driver and its suites, by their path in the kernel."""
    files = {path: source(path) for pattern in ('twheel*.c', 'include/*.h', 'kunit/*.[ch]')
             for path in glob.glob(pattern, root_dir=TOP) if path not in OURS}
    made, names = {}, globals_of(text for path, text in files.items()
                                 if path.startswith('include/') and 'trace' not in path)
    setup, objects, prepare = (text in read(f'include/linux/{name}.h', kernel) for name, text in (
        ('hrtimer', 'hrtimer_setup('), ('slab', 'define kzalloc_obj('), ('mm', 'vma_desc_test(')))
    for path, old, into in RULES + [OLDER] * (not setup) + PREPARE * prepare:
        files[path] = swap(files[path], old, into)
    for path, text in files.items():
        if objects:
            text = re.sub(r'kzalloc\(sizeof\((\*\w+)\), ', r'kzalloc_obj(\1, ', text)
        text = re.sub(r'\n(?:#if.*\n#error .*\n#endif\n)+(?=\n)|#include "compat.h"\n', '', text)
        text = re.sub(r'(?<![\w/])twheel_(?!kunit\.)(\w+\.[ch])\b', r'\1', text)
        text = re.sub(r'(?<![\w/])twheel((?:_kunit)?\.[ch])\b', r'wheel\1', text)
        made[new_name(path)] = rename(text, names)
    return made

def makefile(there):
    """Returns the makefile of the driver, made from Kbuild, for the files that exist so far."""
    text = '# SPDX-License-Identifier: GPL-2.0\n\nccflags-y := -I$(src)\n'
    for symbol, name in (('TWHEEL', 'twheel'), ('TWHEEL_KUNIT_TEST', 'twheel_kunit')):
        kbuild = re.search(rf'^{name}-y :=((.*\\\n)*.*)', read('Kbuild'), re.M)[1]
        kbuild = kbuild.replace('twheel_core', 'twheel').replace('\\\n', '')
        paths = [new_name(path[:-1] + 'c') for path in kbuild.split()]
        if name == 'twheel_kunit':
            paths = [TESTS + 'copies.c'] + [path for path in paths if path.startswith(TESTS)]
        elif DRIVER + 'chrdev.c' not in there:
            continue
        objects = ' '.join(path[len(DRIVER):-1] + 'o' for path in paths if path in there)
        text += f'\nobj-$(CONFIG_{symbol}) += {name}.o\n' + \
            ' \\\n'.join(fill(f'{name}-y := {objects}', '\t'))[1:] + '\n'
    return text

def without_spare(files):
    """Removes from the headers what none of these tests calls."""
    spare = re.compile(r'^(?:/\*(?:(?!\*/).)*\*/\n)?(?:static inline [^;{}]*?\b(\w+)\([^;{}]*\n'
                       r'\{\n.*?\n\}\n|static const [^;{}]*?(\w+)\[\] = \{\n.*?\n\};\n|'
                       r'#define ([A-Za-z]\w*)(?<!_H)\b(?:[^\n]*\\\n)*[^\n]*\n)', re.M | re.S)
    while True:
        words = re.findall(r'\w+', '\n'.join(files.values()))
        fewer = {path: re.sub(r'\n{3,}', '\n\n', spare.sub(
            lambda m: '' if words.count(m[m.lastindex]) == 1 else m[0], text))
                 if path.endswith('.h') else text for path, text in files.items()}
        if fewer == files:
            return files
        files = fewer

def selftests(there):
    """Returns the programs that the makefile of the selftests names, and the headers they include."""
    made, todo = {}, re.findall(r'\w+_test\b', there[SELFTESTS + 'Makefile'])
    todo = [f'tests/device/{name}.c' for name in todo]
    for path in todo:
        text = source(path)
        'set_parameter(' in text and die(f'{path} sets parameters of the module')
        made[SELFTESTS + os.path.basename(path)] = \
            text.replace('"kselftest_harness.h"', '"../kselftest_harness.h"')
        todo += [path for name in re.findall(r'^#include "(\w+\.h)"', text, re.M)
                 for path in [f'tests/lib/{name}'] if path not in todo and name[0] != 'k']
    return without_spare(made)

def insert(text, lines, key, after=''):
    """Inserts lines after the text @after, before the first match of @key that sorts after them."""
    own = re.match(key, lines, re.M)[1].lower()
    for match in re.compile(key, re.M).finditer(text, text.index(after)):
        if match[1].lower() > own:
            return text[:match.start()] + lines + text[match.start():]
    return die(f'cannot find the place in the kernel for {lines!r}')

def touched(kernel, who):
    """Returns the edits of files that the kernel already has, by their path."""
    entry = read('entry.txt', HERE).replace('WHO', who) + '\n'
    return {
        'MAINTAINERS': lambda text: insert(text, entry, r'^([A-Z][^:\n]*)\n[A-Z]:\t', '\nTUN/TAP'),
        'drivers/misc/Kconfig': lambda text: swap(
            text, '^endmenu', 'source "drivers/misc/twheel/Kconfig"\nendmenu'),
        'drivers/misc/Makefile': lambda text: text + 'obj-y\t\t\t\t+= twheel/\n',
        'Documentation/userspace-api/index.rst': lambda text: swap(
            text, '^   (isapnp)$', r'   \1\n   twheel'),
        'Documentation/userspace-api/ioctl/ioctl-number.rst': lambda text: insert(
            text, '0xC5  00-0F  linux/twheel.h\n', r'^(0x[0-9A-F]{2})  [0-9A-F]'),
        'tools/testing/selftests/Makefile': lambda text: insert(
            text, 'TARGETS += twheel\n', r'^TARGETS \+= ([tu].*)$'),
    }

def as_of(patch, path, text, there):
    """Returns a file as this patch adds it, without the parts that later patches add."""
    if path == DRIVER + 'Makefile':
        return makefile(there)
    if path == TESTS + 'copies.c':
        return re.sub(r'#.*"\.\./(.*)"\n', lambda m: m[0] * (DRIVER + m[1] in there), text)
    if path == DRIVER + 'Kconfig' and patch < 4:
        return swap(text, r'\nconfig TWHEEL\n.*|\t\w+ on TWHEEL !.*?\n|\t  They .*?\n\n', '', re.S)
    if path.endswith('/twheel.rst'):
        return swap(text, r'\n\.\. reference\n' + r'.*' * (patch < 4), '', re.S)
    return text

def main(kernel, out):
    work, static = os.path.join(out, 'work'), HERE / 'tree'
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(work)

    def git(*args, cwd=work, **more):
        return subprocess.check_output(['git', *args], cwd=cwd, text=True, **more).strip()

    name, mail, date = (git(*of, cwd=TOP) for of in (
        ('config', 'user.name'), ('config', 'user.email'), ('log', '-1', '--format=%cI')))
    os.environ |= {f'GIT_{role}_{what}': value for role in ('AUTHOR', 'COMMITTER')
                   for what, value in (('NAME', name), ('EMAIL', mail), ('DATE', date))}

    def commit(message):
        git('add', '-A', '-f')
        git('commit', '-q', '-s', '-F', '-', input=message)

    edits = touched(kernel, f'{name} <{mail}>')
    for path in edits:
        write(path, read(path, kernel), work)
    git('init', '-q', '-b', 'series')
    commit('base')
    git('tag', 'base')

    final = {str(it.relative_to(static)): read(it) for it in static.rglob('*') if it.is_file()}
    final |= module(kernel) | selftests(final)
    final |= {path: edit(read(path, kernel)) for path, edit in edits.items()}
    final |= {UAPI: swap(read(UAPI), r'^/\* 0xC5 is free .*\*/\n', ''), DRIVER + 'Makefile': ''}
    when = {path: next(n for n, pattern in PATCHES if re.match(pattern, path)) for path in final}
    cover, *messages = re.split(r'^== .*\n', read('series.txt', HERE), flags=re.M)[1:]
    for patch, message in enumerate(messages, 1):
        there = {path for path in final if when[path] <= patch}
        for path in there:
            write(path, as_of(patch, path, final[path], there), work)
        commit(message.strip())

    git('format-patch', '-q', '--rfc', '--zero-commit', '--cover-letter', '--no-signature',
        '-o', os.path.abspath(out), 'base..series')
    version = '.'.join(re.findall(r'^(?:VERSION|\w+LEVEL) = (\d+)', read('Makefile', kernel), re.M))
    subject, body = cover.strip().replace('KERNEL', version).split('\n\n', 1)
    letter = read('0000-cover-letter.patch', out).replace('*** SUBJECT HERE ***', subject)
    write('0000-cover-letter.patch', letter.replace('*** BLURB HERE ***', body), out)

if __name__ == '__main__':
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    os.path.isfile(sys.argv[1] + '/drivers/misc/Kconfig') or die(f'{sys.argv[1]}: no kernel')
    main(*sys.argv[1:])
