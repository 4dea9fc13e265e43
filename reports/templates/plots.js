(function () {
  "use strict";
  if (typeof Plotly === "undefined") return;
  var plots = JSON.parse(document.getElementById("plots").textContent);
  var root = document.documentElement;
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var narrow = window.matchMedia("(max-width: 40rem)");

  function colour(name) {
    return getComputedStyle(root).getPropertyValue("--" + name).trim();
  }

  function layoutOf(plot) {
    var layout = JSON.parse(JSON.stringify(plot.layout));
    layout.paper_bgcolor = "rgba(0,0,0,0)";
    layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { color: colour("ink"), family: getComputedStyle(document.body).fontFamily, size: 12 };
    layout.margin = { l: 56, r: 12, t: 8, b: 44 };
    layout.legend = { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" };
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("ink") };
    layout.hoverlabel = { bgcolor: colour("sheet"), bordercolor: colour("line"), font: { color: colour("ink") } };
    if (layout.showlegend) layout.margin.t = 32;
    ["xaxis", "yaxis"].forEach(function (axis) {
      layout[axis] = Object.assign({ gridcolor: colour("line"), linecolor: colour("line"), zerolinecolor: colour("line"),
        automargin: true, separatethousands: true, exponentformat: "none" }, layout[axis]);
    });
    if (layout.coloraxis) {
      layout.coloraxis.colorscale = "cmid" in layout.coloraxis
        ? [[0, colour("cool")], [0.5, colour("middle")], [1, colour("hot")]]
        : [[0, colour("pale")], [1, colour("deep")]];
    }
    return layout;
  }

  function draw() {
    plots.forEach(function (plot) {
      Plotly.react(plot.id, plot.data, layoutOf(plot), {
        responsive: true, displaylogo: false, scrollZoom: false,
        displayModeBar: narrow.matches || plot.data[0].type === "heatmap" ? false : "hover",
        modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]]
      });
    });
  }

  root.classList.add("drawn");
  draw();
  dark.addEventListener("change", draw);
})();
