"""Writes files as `hf download --repo-type dataset` does into HuggingFace's cache."""
import os
import shutil


def hub_cache(cache, name, path, content):
    """A data set with one file, whose content is that of the file `content`. Returns the path of the file, which is a
    link to a file without an extension."""
    folder = os.path.join(cache, 'datasets--' + name.replace('/', '--'))
    commit, blob = 'c' * 40, os.path.join(folder, 'blobs', 'b' * 64)
    file = os.path.join(folder, 'snapshots', commit, path)
    for made in (os.path.dirname(blob), os.path.dirname(file), os.path.join(folder, 'refs')):
        os.makedirs(made)
    shutil.copy(content, blob)
    os.symlink(os.path.relpath(blob, os.path.dirname(file)), file)
    with open(os.path.join(folder, 'refs', 'main'), 'w', encoding='ascii') as ref:
        ref.write(commit)
    return file
